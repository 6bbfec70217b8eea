"""Where a plan and its bytes are kept: both come into being whole, beside what they replace, and never in a store."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from storeio.errors import UsageError
from storeio.output.partials import MOST_NAME_BYTES, left_beside, partial_name
from storeio.output.staging import explained, flush, flush_names
from storeio.output.targets import followed, refuse_inside, refuse_special
from storeio.plan import Plan, model
from storeio.plan.rules import is_plain_name
from storeio.safe import printable
from storeio.uris import is_remote, refuse_remote

BYTES: Final = ".bytes"
PRIVATE_MODE: Final = 0o700  # of what holds copies of messages


@dataclass(frozen=True, slots=True)
class Output:
    """The plan's file, the file of the bytes that it writes, and sentences on what killed runs left beside them."""

    plan: Path
    bytes: Path
    notes: tuple[str, ...] = ()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a directory beside the plan that others cannot look into; removed in the end, with all that is in it.

        Raises:
            WriteError: It could not be made.
        """
        place = self.plan.with_name(partial_name(self.plan.name))
        with explained(f"--out {self.plan}"):
            place.mkdir(PRIVATE_MODE)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def keep(self, plan: Plan, scratch: Path, made: Path) -> None:
        """Put a whole plan in place, before or after another of its name. A link there is replaced and not followed.

        Args:
            plan: What is to be kept.
            scratch: Directory on the same file system, of nobody else.
            made: The bytes file, in it.

        Raises:
            WriteError: It could not be written.
        """
        text = scratch / "plan.json"
        with explained(f"--out {self.plan}"):
            text.write_text(model.to_json(plan), encoding="ascii")
            for file in (text, made):
                flush(file)
            with _alone_in(self.plan.parent):
                if plan.bytes_length:
                    made.replace(self.bytes)
                text.replace(self.plan)
                if not plan.bytes_length:
                    self.bytes.unlink(missing_ok=True)  # of an earlier plan of this name
                flush_names(self.plan.parent)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Keep other plans out of a directory, so that none gets another's bytes; not where it cannot be locked."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def output_for(out: str | os.PathLike[str] | None, *stores: str) -> Iterator[Output]:
    """Give where a plan is to be kept, as ``output_at``; a directory that goes with the block if it is not to be kept.

    Raises:
        UsageError: As there.
    """
    if out is not None:
        yield output_at(out, *stores)
        return
    with tempfile.TemporaryDirectory(prefix="storeio-plan-") as place:
        yield output_at(Path(place) / "plan.json", *stores)


def output_at(out: str | os.PathLike[str], *stores: str) -> Output:
    """Return where a plan is to be kept, nothing made yet.

    Raises:
        UsageError: It would lie in a store, a link there leads into one, something else than a file is there, its
            directory is not, or its name is too long.
    """
    plan = Path(refuse_remote(os.fspath(out), "--out writes to a local disk"))
    if os.fspath(out) == "-":
        raise UsageError("--out -: standard output is not for this; ./- is a file of that name")
    if len(os.fsencode(f"{plan.name}{BYTES}")) > MOST_NAME_BYTES:
        raise UsageError(f"--out {plan}: too long a name: {plan.name}{BYTES} has to be beside it")
    if not is_plain_name(plan.name):
        raise UsageError(f"--out {printable(os.fspath(out))}: needs a name without backslashes or control characters")
    found = Output(plan, plan.with_name(f"{plan.name}{BYTES}") if plan.name else plan)
    for place in (found.plan, found.bytes):
        # Where the name is, and where it leads: what is replaced is the first, what is meant may be the second.
        ends = (followed(place.parent) / place.name, followed(place))
        for store in stores:
            if not is_remote(store) and any(end.is_relative_to(followed(store)) for end in ends):
                raise UsageError(f"--out {place}: lies inside the store {store}, which is never written")
        refuse_inside("--out", place)
        refuse_special("--out", place)
    if not plan.parent.is_dir():
        raise UsageError(f"--out {plan}: is no file in a directory that is there")
    return replace(found, notes=left_beside(plan))
