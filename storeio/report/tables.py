"""Plain text in columns and paragraphs that fit a width; nothing in it can act on a terminal."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

from storeio.safe import printable

GAP = "  "
ROWS = 20  # of a table
LEAST_COLUMN = 8  # a shortened name still tells something


def width_of(text: str) -> int:
    """Return the columns that a terminal takes for printable text."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def clipped(text: str, most: int) -> str:
    """Return at most so many columns of the text; its middle goes, since names differ at both ends."""
    if width_of(text) <= most:
        return text
    for kept in range(most - 2, 1, -1):  # fewer where characters are two columns wide
        short = f"{text[: kept // 2]}..{text[kept // 2 - kept :]}"
        if width_of(short) <= most:
            return short
    return text[: most // 2]


def table(head: Sequence[str], rows: Iterable[Sequence[object]], width: int, *, left: int = 1) -> list[str]:
    """Return aligned lines of at most ``width`` columns, indented; numbers right, the first ``left`` columns left.

    Where it gets too wide, the longest of the left columns are clipped. A row of numbers is never cut.
    """
    cells = [list(head), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(width_of(row[i]) for row in cells) for i in range(len(head))]
    spare = width - len(GAP) - sum(widths) - len(GAP) * (len(head) - 1)
    while spare < 0 and max(widths[:left]) > LEAST_COLUMN:
        longest = widths.index(max(widths[:left]))
        cut = min(-spare, widths[longest] - LEAST_COLUMN, max(1, widths[longest] - _second(widths[:left])))
        widths[longest] -= cut
        spare += cut
    return [(GAP + GAP.join(_aligned(row, widths, left))).rstrip() for row in cells]


def _second(widths: Sequence[int]) -> int:
    """Return the second largest number, the least column's width where there is none."""
    return sorted(widths)[-2] if len(widths) > 1 else LEAST_COLUMN


def _aligned(row: Sequence[str], widths: Sequence[int], left: int) -> Iterable[str]:
    for i, (text, width) in enumerate(zip(row, widths, strict=True)):
        cell = clipped(text, width) if i < left else text
        pad = " " * (width - width_of(cell))
        yield cell + pad if i < left else pad + cell


def flowed(cells: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Return name and number pairs in as many columns as fit, read downwards."""
    if not cells:
        return []
    name = max(width_of(n) for n, _ in cells)
    number = max(width_of(v) for _, v in cells)
    one = name + len(GAP) + number
    columns = max(1, (width + 2) // (one + 2 * len(GAP)))
    height = -(-len(cells) // columns)
    texts = [n + " " * (one - width_of(n) - width_of(v)) + v for n, v in cells]
    return [GAP + (2 * GAP).join(texts[row::height]) for row in range(height)]


def paragraph(label: str, text: str, width: int, indent: str = "   ") -> list[str]:
    """Return ``label: text`` wrapped at blanks, what follows indented; a long path is not cut."""
    return textwrap.wrap(
        f"{label}{text}",
        max(width, 40),
        initial_indent=indent,
        subsequent_indent=indent + " " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def counted(number: int, one: str) -> str:
    """Return ``1 file``, ``1,234 files``."""
    return f"{number:,} {one if number == 1 else one + 's'}"


def bytes_text(count: int) -> str:
    """Return a number of bytes with three digits and a unit, as in ``1.23 GB``; powers of 1000."""
    value, units = float(count), ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    if units[0] == "bytes":
        return "1 byte" if count == 1 else f"{count} bytes"
    return f"{value:#.3g}".rstrip(".") + f" {units[0]}"


def rest_of(count: int, what: str) -> list[str]:
    """Return the line on rows of a table that are not shown; none where all are."""
    return [f"  ... and {counted(count - ROWS, f'more {what}')}; --json FILE has all"] if count > ROWS else []


def told_as_list(title: str, texts: Sequence[str], width: int) -> list[str]:
    """Return a heading and a paragraph for each of some texts on places; nothing where there are none."""
    if not texts:
        return []
    lines = ["", title]
    for text in texts[:ROWS]:
        lines += paragraph("- ", printable(text), width, "  ")
    return [*lines, *rest_of(len(texts), "place")]
