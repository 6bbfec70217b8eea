"""A walked split -> Arrow batches of its records, column by column: what nobody asks for costs nothing.

Rows are made a few thousand at a time, and only those that a query's conditions let through: a split of
small records has hundreds of thousands. Numbers of intact records come from the walk's table or from one
compiled look at the head. Damaged ones are few and go through the view that ``storeio inspect`` shows of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storeio.errors import UnreadableError
from storeio.format import commitlog as log
from storeio.format import properties
from storeio.inspect.logwalk import E_INDEX, E_KIND, E_START, E_STOP, ROW, Stretch, entries
from storeio.inspect.reader import Reader
from storeio.inspect.recordviews import view_of
from storeio.inspect.views import RecordView
from storeio.kernels import head as h
from storeio.kernels import tables as w
from storeio.kernels import tags as t
from storeio.paths import describe
from storeio.scan import kept_open, read_range
from storeio.walk import Walked
from storeio.window import Bytes
from udfs.arrow import batch_of
from udfs.conditions import Condition

Numbers = npt.NDArray[np.int64]

BATCH_ROWS: Final = 8192
BATCH_BYTES: Final = 32 << 20  # of records in one batch with bodies
BODY: Final = "body"
PROPERTIES: Final = "properties"
STORE_TIMESTAMP_BYTES: Final = 8  # lie between the two hosts
PORT_BYTES: Final = 4


class FileBytes:
    """What a view of damage needs of ``inspect.Reader``: ranges of files, without listing the store."""

    def __init__(self, root: str) -> None:
        self.root = root

    def read(self, path: str, start: int, stop: int) -> Bytes:
        """Return bytes of a file."""
        return read_range(self.root, path, start, stop)

    def failed(self, error: UnreadableError) -> None:
        """Raise: a task that cannot read fails."""
        raise error


class Shown:
    """The records of a split that are shown, in order of place: intact, damaged and, if asked, stale ones."""

    def __init__(self, root: str, walked: Walked, entries_shown: Numbers | None = None, *, stale: bool = False) -> None:
        self.walked = walked
        self.root = root
        self.stretch = Stretch(describe(walked.split.path, walked.split.file_size), walked)
        self.entries: Numbers = entries(self.stretch, stale=stale) if entries_shown is None else entries_shown
        self.valid: npt.NDArray[np.bool_] = self.entries[E_KIND] == ROW
        self.rows: Numbers = self.entries[E_INDEX, self.valid]

    def part(self, chosen: slice | npt.NDArray[np.bool_]) -> Shown:
        """Return some of them."""
        return Shown(self.root, self.walked, self.entries[:, chosen])

    def where(self, conditions: Sequence[Condition]) -> Shown:
        """Return those for which all conditions are true, looked at one after the other."""
        shown = self
        for condition in conditions:
            if len(shown):
                true = condition.holds(functools.partial(column_of, shown))
                shown = shown.part(true.fill_null(False).to_numpy(zero_copy_only=False))
        return shown

    def __len__(self) -> int:
        return len(self.valid)

    @functools.cached_property
    def heads(self) -> Numbers:
        """What the intact ones' heads say, one row a record; places as in ``kernels.head``."""
        walked = self.walked
        heads = np.zeros((len(self.rows), h.HEAD_COLUMNS), np.int64)
        for n, position in enumerate(walked.records[w.R_POSITION, self.rows].tolist()):
            h.read_head(walked.window, walked.origin, walked.split.file_size, position, heads[n])
        return heads

    @functools.cached_property
    def views(self) -> list[RecordView]:
        """The others, as ``storeio inspect`` shows them."""
        reader = cast(Reader, FileBytes(self.root))
        bad = self.entries[:, ~self.valid].T.tolist()
        return [view_of(reader, self.stretch, *entry) for entry in bad]

    def fields(self, places: tuple[int, int]) -> list[bytes]:
        """Return bytes of each intact record, found by two places of its head: where, and how many."""
        view = self.walked.window.data
        origin = self.walked.origin
        ranges = self.heads[:, places].tolist()
        return [bytes(view[at - origin : at - origin + max(length, 0)]) for at, length in ranges]

    def whole(self, name: str, intact: pa.Array) -> pa.Array:
        """Return the column of all from that of the intact ones; the others' views have the same name."""
        if self.valid.all():
            return intact
        others = pa.array([_said(view, name) for view in self.views], intact.type)
        order = np.empty(len(self), np.int64)
        order[self.valid] = np.arange(len(self.rows))
        order[~self.valid] = np.arange(len(self.rows), len(self))
        return pa.concat_arrays([intact, others]).take(pa.array(order))


def _said(view: RecordView, name: str) -> Any:
    return (view.properties or {}).get(properties.TAGS) if name == "tag" else getattr(view, name)


def record_batches(
    shown: Shown, names: Sequence[str], conditions: Sequence[Condition] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the records with these columns, in order of place, without most that do not meet the conditions."""
    looked_at = in_turn(conditions)
    for start in range(0, len(shown), BATCH_ROWS):
        wanted = shown.part(slice(start, start + BATCH_ROWS)).where(looked_at)
        for part in loads(wanted) if BODY in names else [wanted] if len(wanted) else []:
            yield batch_of({name: column_of(part, name) for name in names})


def in_turn(conditions: Sequence[Condition]) -> list[Condition]:
    """Return the conditions with the cheapest columns in front, without those whose columns cost as much as a row."""
    cheap = [condition for condition in conditions if not condition.columns & {BODY, PROPERTIES}]
    return sorted(cheap, key=lambda condition: not condition.columns <= CHEAP)


def loads(shown: Shown) -> Iterator[Shown]:
    """Yield the rows of each batch with bodies: few where those are large."""
    ends = np.cumsum(shown.entries[E_STOP] - shown.entries[E_START])
    start = 0
    while start < len(shown):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + BATCH_BYTES)), start + 1)
        yield shown.part(slice(start, stop))
        start = stop


def column_of(shown: Shown, name: str) -> pa.Array:
    """Return one column."""
    if name in _PLACED:
        return _PLACED[name](shown)
    return shown.whole(name, _INTACT[name](shown))


def _bodies(shown: Shown) -> pa.Array:
    """Return the stored bodies."""
    places: list[tuple[int | None, int | None]] = [(None, None)] * len(shown)
    for n, (at, length) in zip(
        np.flatnonzero(shown.valid).tolist(), shown.heads[:, [h.BODY_AT, h.BODY_BYTES]].tolist(), strict=True
    ):
        places[n] = at, max(length, 0)
    for n, view in zip(np.flatnonzero(~shown.valid).tolist(), shown.views, strict=True):
        places[n] = view.body_position, view.body_length
    reader, path = FileBytes(shown.root), shown.walked.split.path
    with kept_open():  # from a server many bodies come with one request
        found = [None if at is None or n is None else reader.read(path, at, at + n).tobytes() for at, n in places]
    return pa.array(found, pa.binary())


def _number(row: int, kind: pa.DataType) -> Callable[[Shown], pa.Array]:
    """Return the maker of a column that the walk's table has."""
    return lambda shown: pa.array(shown.walked.records[row, shown.rows]).cast(kind)


def _head(place: int, kind: pa.DataType) -> Callable[[Shown], pa.Array]:
    """Return the maker of a column that only the record's head has."""
    return lambda shown: pa.array(np.ascontiguousarray(shown.heads[:, place])).cast(kind)


def _dictionary(shown: Shown, values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return one of the values for each intact record, by the number of its queue."""
    numbers = pa.array(shown.walked.records[w.R_QUEUE, shown.rows].astype(np.int32))
    return pa.array(values, kind).take(numbers)


def _topics(shown: Shown) -> pa.Array:
    return _dictionary(shown, [properties.java_decode(topic) for topic, _ in shown.walked.queues], pa.string())


def _queue_ids(shown: Shown) -> pa.Array:
    return _dictionary(shown, [queue_id for _, queue_id in shown.walked.queues], pa.int32())


def _properties(shown: Shown) -> pa.Array:
    raw = shown.fields((h.PROPERTIES_AT, h.PROPERTIES_BYTES))
    return pa.array([list(properties.parse(one).items()) for one in raw], pa.map_(pa.string(), pa.string()))


def _tags(shown: Shown) -> pa.Array:
    """Return the tags as the walk's own parser finds them, which makes no map of everything else."""
    walked = shown.walked
    places = np.zeros(t.PLACES, np.int64)
    found: list[str | None] = []
    for at, length in walked.records[[w.R_PROPERTIES_AT, w.R_PROPERTIES_BYTES]][:, shown.rows].T.tolist():
        t.find_properties(walked.window, at - walked.origin, at - walked.origin + max(length, 0), places)
        start, stop = places[2 * t.TAGS : 2 * t.TAGS + 2].tolist()
        found.append(properties.java_decode(walked.window[start:stop].tobytes()) if stop else None)
    return pa.array(found, pa.string())


def _body_lengths(shown: Shown) -> pa.Array:
    return pa.array(np.maximum(shown.walked.records[w.R_BODY_BYTES, shown.rows], 0)).cast(pa.int32())


def _hosts(which: int) -> Callable[[Shown], pa.Array]:
    """Return the maker of the column of born hosts (0) or store hosts (1)."""
    port = (h.BORN_PORT, h.STORE_PORT)[which]

    def column(shown: Shown) -> pa.Array:
        view = shown.walked.window.data
        starts = (shown.walked.records[w.R_POSITION, shown.rows] - shown.walked.origin + log.BORN_HOST_AT).tolist()
        texts = []
        for at, sys_flag, number in zip(starts, *shown.heads[:, [h.SYS_FLAG, port]].T.tolist(), strict=True):
            lengths = log.host_bytes(sys_flag)
            start = at + (lengths[0] + STORE_TIMESTAMP_BYTES if which else 0)
            texts.append(_host_text(bytes(view[start : start + lengths[which] - PORT_BYTES]), number))
        return pa.array(texts, pa.string())

    return column


@functools.lru_cache(maxsize=1 << 16)
def _host_text(address: bytes, port: int) -> str:
    return str(log.Host(address, port))


def _physical(shown: Shown) -> pa.Array:
    return pa.array(shown.entries[E_START] + shown.walked.split.base_offset)


def _reasons(shown: Shown) -> pa.Array:
    whys: list[str | None] = [None] * len(shown)
    for n, view in zip(np.flatnonzero(~shown.valid).tolist(), shown.views, strict=True):
        whys[n] = view.why
    return pa.array(whys, pa.string())


# Columns that do not depend on what a record says.
_PLACED: Final[dict[str, Callable[[Shown], pa.Array]]] = {
    "path": lambda shown: pa.repeat(pa.scalar(shown.walked.split.path, pa.string()), len(shown)),
    "physical_offset": _physical,
    "extent": lambda shown: pa.array(shown.entries[E_STOP] - shown.entries[E_START]),
    "valid": lambda shown: pa.array(shown.valid),
    "why": _reasons,
    BODY: _bodies,
}
# Columns of what an intact record says.
_INTACT: Final[dict[str, Callable[[Shown], pa.Array]]] = {
    "size": _number(w.R_SIZE, pa.int32()),
    "magic": _head(h.MAGIC, pa.int32()),
    "topic": _topics,
    "queue_id": _queue_ids,
    "queue_offset": _number(w.R_QUEUE_OFFSET, pa.int64()),
    "sys_flag": _number(w.R_SYS_FLAG, pa.int32()),
    "flag": _head(h.FLAG, pa.int32()),
    "born_timestamp_ms": _number(w.R_BORN_MS, pa.int64()),
    "born_host": _hosts(0),
    "store_timestamp_ms": _number(w.R_STORE_MS, pa.int64()),
    "store_host": _hosts(1),
    "reconsume_times": _head(h.RECONSUME, pa.int32()),
    "prepared_transaction_offset": _head(h.PREPARED, pa.int64()),
    "body_crc": _head(h.BODY_CRC, pa.int32()),
    "body_length": _body_lengths,
    PROPERTIES: _properties,
    "tag": _tags,
    "tags_code": _number(w.R_TAGS_CODE, pa.int64()),
    "batch_size": _number(w.R_BATCH_SIZE, pa.int32()),
}
# Columns that take no look at each record.
CHEAP: Final = frozenset(_PLACED.keys() - {BODY}) | {
    "size", "topic", "queue_id", "queue_offset", "sys_flag", "born_timestamp_ms", "store_timestamp_ms", "body_length",
    "tags_code", "batch_size",
}  # fmt: skip
