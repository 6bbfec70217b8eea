"""What a verb wrote, and with what, in one sentence."""

from __future__ import annotations

from typing import Protocol

from storeio.report.tables import bytes_text, counted, paragraph
from storeio.safe import printable


class Writing(Protocol):
    """A result that is files."""

    files: list[str]
    written_bytes: int
    seconds: float
    crc_engine: str
    version: str

    @property
    def exit_code(self) -> int:
        """The verb's exit code."""


def written_lines(result: Writing, width: int, also: str = "") -> list[str]:
    """Return the lines that tell how much was written, how fast, and with what; ``also`` is told of what it holds."""
    size = bytes_text(result.written_bytes)
    text = f"Wrote {counted(len(result.files), 'file')}, {size}, in {result.seconds:.2f} s"
    text += f": {also}; " if also else "; "
    text += f"CRC by {printable(result.crc_engine)}, storeio {result.version}, exit code {result.exit_code}."
    return paragraph("", text, width, "")
