"""The functions of ``storeio.inspect``: a store root and what is wanted in, plain data out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from storeio.errors import UsageError
from storeio.format import properties as props
from storeio.inspect import filelist, hexview, indexunits, queueunits
from storeio.inspect.bodies import Body, read_body
from storeio.inspect.lookup import records_around
from storeio.inspect.matching import Filter
from storeio.inspect.reader import Failed, Note, Reader
from storeio.inspect.selection import by_message_id, check_range, check_wanted, known_topics, select
from storeio.inspect.views import MOST_BYTES, EntryView, FileView, RecordView, UnitView

Root = str | os.PathLike[str] | Reader
Range = int | tuple[int, int]


def open_reader(
    root: Root, *, settings: Mapping[str, str] | None = None, note: Note | None = None, failed: Failed | None = None
) -> Reader:
    """Return the store opened for inspection; every function here also takes it in place of the root.

    Raises:
        NotAStoreError: The path is no store directory.
        UnreadableError: Part of it cannot be listed, and no ``failed`` receives that.
    """
    return root if isinstance(root, Reader) else Reader(root, settings=settings, note=note, failed=failed)


def records(
    root: Root,
    *,
    at: int | None = None,
    around: int = 0,
    message_id: str | None = None,
    unique_key: str | None = None,
    key: str | None = None,
    tag: str | None = None,
    topic: str | None = None,
    queue_id: int | None = None,
    queue_offset: Range | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    scan: bool = False,
    stale: bool = False,
    limit: int | None = None,
    settings: Mapping[str, str] | None = None,
    note: Note | None = None,
    failed: Failed | None = None,
) -> Iterator[RecordView]:
    """Return an iterator over the records that are all of what is asked, in physical order.

    Damaged ones have ``valid`` False; stale ones come with ``stale`` or ``at``, a physical offset in
    or at a record, with ``around`` so many neighbours on each side. Ranges are inclusive, of store times in Unix ms.
    ``limit`` is how many are returned at most. ``scan`` forbids short cuts by queue, index or a guessed start.

    Raises:
        UsageError: The question makes no sense. Others as ``open_reader``, also while iterating.
    """
    wanted = Filter(topic, queue_id, _range(queue_offset), tag, key, unique_key, since_ms, until_ms)
    _check(wanted, at, around, message_id, limit)
    reader = open_reader(root, settings=settings, note=note, failed=failed)
    if at is not None:
        found = records_around(reader, at, around, exact=scan)
    elif message_id is not None:
        found = by_message_id(reader, message_id)
    else:
        found = select(reader, wanted, scan=scan, stale=stale)
    return islice((view for view in found if wanted.matches(view)), limit)


def _range(offsets: Range | None) -> tuple[int, int] | None:
    return (offsets, offsets) if isinstance(offsets, int) else offsets


def _check(wanted: Filter, at: int | None, around: int, message_id: str | None, limit: int | None) -> None:
    """Refuse questions that make no sense.

    Raises:
        UsageError: As ``check_wanted``; two places, neighbours of none, or a negative count.
    """
    check_wanted(wanted)
    if at is not None and message_id is not None:
        raise UsageError("a physical offset and a message id are two questions")
    if around and at is None:
        raise UsageError("--around goes with --at: neighbours of which record?")
    _check_counts(around, limit)


def _check_counts(*counts: int | None) -> None:
    if any(count is not None and count < 0 for count in counts):
        raise UsageError("counts cannot be negative")


def units(
    root: Root,
    *,
    topic: str | None = None,
    queue_id: int | None = None,
    queue_offset: Range | None = None,
    limit: int | None = None,
) -> Iterator[UnitView]:
    """Return an iterator over the units of the queues, file by file, each with the record it points at.

    Raises:
        UsageError: ``limit`` is negative, or a range ends before it starts. Others as ``open_reader``.
    """
    _check_counts(limit)
    offsets = _range(queue_offset)
    if offsets is not None:
        check_range(offsets)
    reader = open_reader(root)
    return islice(queueunits.units(reader, topic=topic, queue_id=queue_id, queue_offsets=offsets), limit)


def index_entries(
    root: Root,
    *,
    key: str | None = None,
    unique_key: str | None = None,
    tag: str | None = None,
    topic: str | None = None,
    at: int | None = None,
    limit: int | None = None,
) -> Iterator[EntryView]:
    """Return an iterator over index entries: all, those whose hash is a key's or tag's, or those of one record.

    A hash is of topic and key; without a topic those of all topics that have a queue are taken.

    Raises:
        UsageError: A topic without a key, or ``limit`` is negative. Others as ``open_reader``.
    """
    _check_counts(limit)
    reader = open_reader(root)
    names = [name for name in (key, unique_key) if name is not None] + ([f"T#{tag}"] if tag is not None else [])
    hashes = None
    if names:
        topics = [topic] if topic is not None else known_topics(reader)
        hashes = np.array(sorted({props.key_hash(f"{t}#{name}") for t in topics for name in names}), np.int64)
    elif topic is not None:
        raise UsageError("index entries know no topic: give a key, too")
    return islice(indexunits.entries_of(reader, hashes=hashes, physical_offset=at), limit)


def files(root: Root) -> Iterator[FileView]:
    """Return an iterator over the files of the store, each with what it holds."""
    return filelist.files(open_reader(root))


def hex_view(root: Root, position: int, path: str | None = None, most: int = hexview.DUMP_BYTES) -> hexview.HexView:
    """Return the annotated bytes at a position of a file, at a physical offset without a path.

    Raises:
        UsageError: The store has no such file or position.
    """
    return hexview.hex_view(open_reader(root), position, path, most)


def body(root: Root, view: RecordView, most: int = MOST_BYTES) -> Body:
    """Return a record's body, decompressed where it is compressed, at most ``most`` bytes of it.

    Raises:
        UsageError: ``most`` is negative.
    """
    _check_counts(most)
    return read_body(open_reader(root), view, most)
