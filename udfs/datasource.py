"""``spark.read.format("rocketmq_store")``: records, queue units and index units as data frames.

Options:
    path: The store root.
    what: ``records`` (default), ``units``, ``batch_units`` or ``index``.
    split_bytes: Bytes of files that one task reads, by default 64 MiB.
    body: ``true`` adds the stored bodies to the records.
    stale: ``true`` adds intact records of another place or time, which are not valid.
    settings: Broker settings, ``name=value``, one a line, e.g. ``messageDelayLevel=1s 5s``.
    begins: What ``read_records`` found out; not for people.

``.schema(...)`` with some of the columns spares the work of all others. The workers open the bytes
themselves; nothing of the store goes through the JVM but the rows.

Records are exactly those of the sequential walk, whatever the splits. A task that does not begin at
a segment's start needs to know where the task before it ends. ``read_records`` finds out first, with
one more walk of the log in parallel. Plain reads walk the segment in front of the split again: without
output that takes a tenth of the time that rows of the same bytes do, but reads them again, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from storeio import audit
from storeio.config import given_settings
from storeio.errors import LayoutError, UsageError
from storeio.paths import BATCHQUEUE, CONSUMEQUEUE, INDEX
from storeio.splits import DEFAULT_SPLIT_BYTES, Split, WalkState
from storeio.uris import place_of, shown
from udfs import begins as states
from udfs import units
from udfs.checks import grouped, workers_named
from udfs.records import Shown, record_batches
from udfs.schemas import BATCH_UNITS, BODY_FIELD, INDEX_UNITS, KINDS, RECORDS, SCHEMAS, UNITS

NAME: Final = "rocketmq_store"
_FILE_KINDS: Final = {UNITS: CONSUMEQUEUE, BATCH_UNITS: BATCHQUEUE, INDEX_UNITS: INDEX}


@dataclass(frozen=True)
class Options:
    """The options of a read, checked."""

    path: str
    what: str = RECORDS
    split_bytes: int = DEFAULT_SPLIT_BYTES
    body: bool = False
    stale: bool = False
    settings: str = ""
    begins: str = ""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Return the options as given to Spark.

        Raises:
            UsageError: The path is missing, an option is unknown or has a bad value.
        """
        known = [field.name for field in fields(cls)]
        unknown = [name for name in given if name.lower() not in known]
        if unknown or not given.get("path"):
            raise UsageError(f"{NAME}: unknown option {unknown[0]}" if unknown else f"{NAME}: no path given")
        what, size = given.get("what", RECORDS), given.get("split_bytes", str(DEFAULT_SPLIT_BYTES))
        if what not in KINDS:
            raise UsageError(f"{NAME}: what={what}: expected one of {', '.join(KINDS)}")
        if not size.isdecimal() or int(size) == 0:
            raise UsageError(f"{NAME}: split_bytes={size}: expected a number of bytes")
        body, stale = (_flag(name, given.get(name, "false")) for name in ("body", "stale"))
        return cls(
            place_of(given["path"]), what, int(size), body, stale, given.get("settings", ""), given.get("begins", "")
        )

    def schema(self) -> StructType:
        """Return all columns of what is asked for."""
        schema = SCHEMAS[self.what]
        return StructType([*schema.fields, BODY_FIELD]) if self.body and self.what == RECORDS else schema

    def plan(self) -> audit.AuditPlan:
        """Return listing, settings and splits of the store."""
        given = given_settings(sets=self.settings.splitlines())
        return audit.prepare(self.path, given=given, split_bytes=self.split_bytes)


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise UsageError(f"{NAME}: {name}={value}: expected true or false")
    return value.lower() == "true"


class StoreSource(DataSource):
    """The data source that Spark knows as ``rocketmq_store``."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns of what is asked for."""
        return Options.parse(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the columns of ``schema``."""
        options = Options.parse(self.options)
        types = {field.name: field.dataType for field in options.schema()}
        for field in schema:
            if types.get(field.name) != field.dataType:
                raise UsageError(f"{NAME}: {options.what} have no column {field.name} {field.dataType.simpleString()}")
        return (RecordsReader if options.what == RECORDS else FilesReader)(options, schema.names)


@dataclass
class RecordsPartition(InputPartition):
    """Splits that one task walks one after the other.

    ``begins`` has the state at each one's start, None where it follows on from the one before or is
    a segment's first. Where nothing tells the first one's, ``before`` are the splits in front of it.
    """

    splits: tuple[Split, ...]
    begins: tuple[WalkState | None, ...]
    before: tuple[Split, ...]
    delays_ms: tuple[int, ...]


class RecordsReader(DataSourceReader):
    """Reads records."""

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self.options = options
        self.names = tuple(names)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per split; splits of small segments share one."""
        plan = self.options.plan()
        known = states.from_text(self.options.begins) if self.options.begins else {}
        found: list[InputPartition] = []
        for group in grouped(plan.splits, lambda split: split.stop - split.start, self.options.split_bytes):
            begins = tuple(known.get((split.path, split.start)) for split in group)
            first = group[0]
            before = [s for s in plan.splits if s.path == first.path and s.stop <= first.start]
            unknown = begins[0] is None
            found.append(
                RecordsPartition(tuple(group), begins, tuple(before if unknown else ()), plan.config.delays_ms)
            )
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of some splits."""
        if not isinstance(partition, RecordsPartition):  # of a store without bytes
            return
        root = self.options.path
        delays_ms = np.array(partition.delays_ms, np.int64)
        state = states.chain(root, partition.before) if partition.before else None
        for split, begin in zip(partition.splits, partition.begins, strict=True):
            walked = states.walk(root, split, begin or (state if split.start else None), delays_ms)
            state = walked.end
            yield from record_batches(Shown(root, walked, stale=self.options.stale), self.names)


@dataclass
class FilesPartition(InputPartition):
    """Stretches of queue or index files that one task reads."""

    pieces: tuple[units.Piece, ...]


class FilesReader(DataSourceReader):
    """Reads units of queues or indexes."""

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self.options = options
        self.names = tuple(names)

    def partitions(self) -> Sequence[InputPartition]:
        """Return partitions of about one split's bytes; small files share one, large ones are cut."""
        plan = self.options.plan()
        size = self.options.split_bytes
        files = [f for f in plan.listing.of_kind(_FILE_KINDS[self.options.what]) if f.base_offset is not None]
        if self.options.what == INDEX_UNITS and files and plan.index_shape is None:
            raise LayoutError(
                f"{shown(self.options.path)}: hash slots cannot be told from any index file; set maxHashSlotNum"
            )
        slots = plan.index_shape[0] if plan.index_shape else 0
        pieces = [piece for file in files for piece in units.pieces_of(file, size, slots=slots)]
        groups = grouped(pieces, lambda piece: piece.stop - piece.start, size)
        return [FilesPartition(tuple(group)) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the units of some pieces."""
        for piece in partition.pieces if isinstance(partition, FilesPartition) else ():
            yield from units.unit_batches(self.options.path, piece, self.names)


def register(spark: SparkSession) -> None:
    """Make ``rocketmq_store`` known to a session; again is harmless."""
    spark.dataSource.register(StoreSource)


def read_records(spark: SparkSession, path: str, *, columns: Sequence[str] = (), **options: str) -> DataFrame:
    """Return the records of a store, those columns only if given; see the module for ``options``.

    Walks the log once in parallel to find where each split begins, so that no task has to.
    """
    register(spark)
    parsed = Options.parse({"path": path, **options})
    begins = find_begins(spark, parsed)
    reader = spark.read.format(NAME).options(path=path, begins=states.to_text(begins), **options)
    if columns:
        schema = parsed.schema()
        reader = reader.schema(StructType([schema[name] for name in columns]))
    return reader.load()


def find_begins(spark: SparkSession, options: Options) -> states.Begins:
    """Return the state of the sequential walk at each split's start."""
    splits = options.plan().splits
    root = options.path
    if all(split.start == 0 for split in splits):
        return {}
    context = spark.sparkContext
    slices = min(len(splits), 4 * context.defaultParallelism)
    with workers_named("first walk of the log"):
        probes = context.parallelize(splits, slices).map(lambda split: states.probe(root, split)).collect()
    return states.stitch(splits, probes, lambda split, begin: states.probe(root, split, begin))
