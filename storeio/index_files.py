"""Slots and units of a store's index files: given as settings, told by the files themselves, or brokers' defaults."""

from __future__ import annotations

from storeio.checks.index_shape import Read, infer_shape
from storeio.config import StoreConfig
from storeio.errors import UnreadableError
from storeio.format.index import file_length
from storeio.paths import INDEX
from storeio.results import DEFAULT, INDEX_SHAPE, Setting
from storeio.scan import Listing, go_without, read_range


def index_shape_of(listing: Listing, config: StoreConfig) -> tuple[int, int] | None:
    """Return (slots, units) of a store's index files; None where neither settings nor files tell.

    Where one is given, the other is the usual one if some file is as long as that makes it, else the files': if these
    were made with another one than is given, they are wrong for the broker.

    A file that cannot be read tells nothing; who reads it whole reports it, and others by what is noted of it.
    """
    slots, units = config.index_slots, config.index_units
    if slots is not None and units is not None:
        return slots, units
    is_given = slots is not None or units is not None
    if is_given and file_length(*config.likely_index) in {file.size for file in listing.of_kind(INDEX)}:
        return config.likely_index
    told = _told_by_files(listing)
    return told and (slots or told[0], units or told[1])


def _told_by_files(listing: Listing) -> tuple[int, int] | None:
    """Return (slots, units) of index files as they tell themselves."""

    def reader(path: str) -> Read:
        return lambda start, stop: read_range(listing.root, path, start, stop)

    def can_be_read(read: Read, size: int) -> bool:
        try:
            read(0, size)
        except UnreadableError as error:
            go_without(listing.root, error)
            return False
        return True

    files = [(f.path, f.size, reader(f.path)) for f in listing.of_kind(INDEX)]
    try:
        return infer_shape(files)
    except UnreadableError:
        pass  # the others may tell
    try:
        return infer_shape([(path, size, read) for path, size, read in files if can_be_read(read, size)])
    except UnreadableError:
        return None


def index_settings(listing: Listing, config: StoreConfig, shape: tuple[int, int] | None) -> list[Setting]:
    """Return slots and units of index files as settings, those that were not given; none for a store without index.

    ``shape`` is what ``index_shape_of`` gave; where that is None, files that are made are as the defaults have them.
    """
    files = listing.of_kind(INDEX)
    if not (files or config.index_enabled):
        return []
    given = {setting.name for setting in config.settings}
    source = DEFAULT if shape is None else f"inferred from {len(files)} file{'s' * (len(files) != 1)}"
    values = zip(INDEX_SHAPE, shape or config.likely_index, strict=True)
    return [Setting(name, str(value), source) for name, value in values if name not in given]
