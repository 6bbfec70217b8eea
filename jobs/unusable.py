"""What keeps tables from being read or written: one error with a short reason, told early where that is cheap."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from storeio.errors import StoreError
from storeio.uris import is_remote, place_of, shown
from udfs.checks import reason


class TablesError(StoreError, OSError):
    """The tables could not be read or written."""

    def __str__(self) -> str:
        return str(self.args[0])


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
