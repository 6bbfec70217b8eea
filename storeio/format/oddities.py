"""What no broker writes into its tables of JSON, in words; whether one reads it depends on its parser."""

from __future__ import annotations

from typing import Final

# Single quotes, form feeds and backspaces are not among them: every parser reads them like others.
BLANK: Final = "nothing but blanks"
BARE_NAME: Final = "a name without quotes"
BARE_WORD: Final = "true, false or null in a name's place"
NUMBERED: Final = "a number in a name's place"  # of the outermost object; keys of inner ones may be bare numbers
NO_NUMBER: Final = "NaN or undefined"
CONTROL: Final = "a control character before a name"
ZERO_NAME: Final = "a zero byte before a name"
ZERO: Final = "a zero byte"
BETWEEN: Final = "a control character"
COMMENT: Final = "a comment"
COLON: Final = "a comment before a colon"
WORD: Final = "a comment behind true, false or null"
OUTSIDE: Final = "a control character before the value or behind it"
MIXED: Final = "a comment among other odd things"
FIRST_COMMA: Final = "a comma before the first item"
COMMAS: Final = "a comma too many"
SOME_COMMAS: Final = "a comma too many before a number, or several before an end"
ESCAPE: Final = "an escape that is none"
SUFFIX: Final = "a number of another form"
TWICE: Final = "a name twice"
REFERS: Final = "a type or a reference"
