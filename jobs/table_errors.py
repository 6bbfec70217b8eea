"""What keeps tables from being read or written: one error with a short reason, told early where that is cheap."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storeio.errors import StoreError, UsageError
from storeio.process import stop_still
from storeio.safe import printable
from storeio.uris import is_remote, place_of, shown
from udfs.checks import reason

ODD: Final = "%[]^|\\"  # in a path: what one library takes as it is another decodes, or dies of


class TablesError(StoreError, OSError):
    """The tables could not be read or written."""


@contextlib.contextmanager
def tables_told(where: str) -> Iterator[None]:
    """Run the block; what Spark, Delta or the system raises becomes one line that names the tables.

    Raises:
        TablesError: They raised.
    """
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        stop_still(error)
        raise TablesError(f"{shown(where)}: {reason(error)}") from error


def refuse_file(path: str) -> None:
    """Raise if a file lies where a table's directory is to be, before work is done whose rows would go nowhere.

    Raises:
        TablesError: It does.
    """
    if is_remote(path):
        return
    place = Path(place_of(path))
    there = next((at for at in (place, *place.parents) if at.exists()), place)
    if there.exists() and not there.is_dir():
        raise TablesError(f"{there}: is not a directory")


def tables_at(text: str) -> str:
    """Return the directory of the tables: a local path, or a URI of something else.

    Raises:
        ArgumentTypeError: It is none, or one that Spark and Delta's other libraries read in different ways.
    """
    try:
        place = place_of(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    odd = sorted({char for char in place if char in ODD or not char.isprintable()})
    if not place or (odd and not is_remote(place)):
        what = f"a directory without {' '.join(ODD)} and control characters" if place else "a directory"
        raise argparse.ArgumentTypeError(f"{printable(text)!r}: {what} is needed")
    return place
