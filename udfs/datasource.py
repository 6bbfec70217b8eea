"""``spark.read.format("rocketmq_store")``: records, queue units and index units as data frames.

``udfs.options`` has what may be asked for.

A query's columns and conditions reach the workers: nobody makes what it does not use, and rows that it drops
go before the rest of them is made. The workers open the bytes themselves; nothing of the store goes through the JVM
but the rows.

Records are exactly those of the sequential walk, whatever the splits. A task that does not begin at
a segment's start needs to know where the task before it ends. ``read_records`` finds out first, with
one more walk of the log in parallel. Plain reads walk the segment in front of the split again: without
output that takes a tenth of the time that rows of the same bytes do, but reads them again, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from storeio import audit
from storeio.errors import LayoutError, UsageError
from storeio.paths import INDEX, StoreFile
from storeio.scan import long_stretches, require_same, require_versions
from storeio.splits import Split, WalkState
from storeio.uris import shown
from udfs import begins as states
from udfs import units
from udfs.checks import grouped, workers_named
from udfs.conditions import span
from udfs.options import FILE_KINDS, NAME, Options
from udfs.pushdown import install
from udfs.records import Shown, record_batches
from udfs.schemas import INDEX_UNITS, RECORDS


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
        types = {field.name: field.dataType for field in options.known()}
        for field in schema:
            if types.get(field.name) != field.dataType:
                raise UsageError(f"{NAME}: {options.what} have no column {field.name} {field.dataType.simpleString()}")
        return (RecordsReader if options.what == RECORDS else FilesReader)(options, schema.names)


@dataclass
class RecordsPartition(InputPartition):
    """Splits that one task walks one after the other; ``begins`` has the state at each one's start if it is known."""

    splits: tuple[Split, ...]
    begins: tuple[WalkState | None, ...]
    delays_ms: tuple[int, ...]
    versions: dict[str, str]


class RecordsReader(DataSourceReader):
    """Reads records."""

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self.options = options
        self.names = tuple(names)
        self.conditions = options.conditions()

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per split that may have wanted records; splits of small segments share one."""
        plan = self.options.plan()
        known = states.from_text(self.options.begins) if self.options.begins else {}
        splits = [split for split in plan.splits_then() if self._may_hold(split, known.get((split.path, split.start)))]
        found: list[InputPartition] = []
        for group in grouped(splits, lambda split: split.stop - split.start, self.options.split_bytes):
            begins = [known.get((split.path, split.start)) for split in group]
            there = tuple(begin.state if begin else None for begin in begins)
            versions = plan.listing.versions_of(split.path for split in group)
            found.append(RecordsPartition(tuple(group), there, plan.config.delays_ms, versions))
        return found

    def _may_hold(self, split: Split, begin: states.Begin | None) -> bool:
        """Tell whether wanted records may start in a split: of their times only a walk of it knows the bounds."""
        low, high = span(self.conditions, "physical_offset")
        if high < split.base_offset + split.start or low >= split.base_offset + split.stop:
            return False
        first, last = span(self.conditions, "store_timestamp_ms")
        times = begin.times if begin else None
        return times is None or (times[0] <= times[1] and first <= times[1] and times[0] <= last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of some splits."""
        if not isinstance(partition, RecordsPartition):  # of a store without bytes
            return
        root = self.options.path
        delays_ms = np.array(partition.delays_ms, np.int64)
        state: WalkState | None = None
        behind = ("", 0)
        for split, begin in zip(partition.splits, partition.begins, strict=True):
            if begin is not None or behind != (split.path, split.start):
                state = begin or states.state_at(root, split)
            for part in states.parts_of(split):
                walked = states.walk(root, part, state, delays_ms, reuse=True)
                state = walked.end
                shown = Shown(root, walked, stale=self.options.stale)
                del walked  # only one part's bytes are mapped at a time
                yield from record_batches(shown, self.names, self.conditions)
                del shown
            behind = (split.path, split.stop)
        require_versions(root, partition.versions)


@dataclass
class FilesPartition(InputPartition):
    """Stretches of queue or index files that one task reads."""

    pieces: tuple[units.Piece, ...]
    versions: dict[str, str]


class FilesReader(DataSourceReader):
    """Reads units of queues or indexes."""

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self.options = options
        self.names = tuple(names)
        self.conditions = options.conditions()

    def partitions(self) -> Sequence[InputPartition]:
        """Return partitions of about one split's bytes; small files share one, large ones are cut."""
        options, plan = self.options, self.options.plan()
        files = [f for f in plan.listing.of_kind(FILE_KINDS[options.what]) if f.base_offset is not None]
        if options.what == INDEX_UNITS and files and plan.index_shape is None:
            raise LayoutError(
                f"{shown(options.path)}: hash slots cannot be told from any index file; set maxHashSlotNum"
            )
        slots = plan.index_shape[0] if plan.index_shape else 0
        size, wanted = options.split_bytes, self.conditions
        pieces = [
            piece
            for file in units.wanted_files(files, wanted)
            for piece in units.pieces_of(file, size, self._stretches(plan, file), slots=slots, conditions=wanted)
        ]
        return [
            FilesPartition(tuple(group), plan.listing.versions_of(piece.file.path for piece in group))
            for group in grouped(pieces, units.weight_of, size)
        ]

    def _stretches(self, plan: audit.AuditPlan, file: StoreFile) -> list[tuple[int, int]]:
        """Return where units may be written: in no holes of a queue file; of an index file the header counts them."""
        limit = plan.moment.stops.get(file.path, file.size) if plan.moment is not None else file.size
        if file.kind == INDEX:
            return [(0, limit)]
        found = long_stretches(self.options.path, file.path, file.size)
        return [(start, min(stop, limit)) for start, stop in found if start < limit]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the units of some pieces."""
        if isinstance(partition, FilesPartition):
            yield from units.unit_batches(self.options.path, partition.pieces, self.names, self.conditions)
            require_versions(self.options.path, partition.versions)


def register(spark: SparkSession) -> None:
    """Make ``rocketmq_store`` known to a session, with the rule that tells it what a query wants; again is harmless."""
    spark.dataSource.register(StoreSource)
    install(spark, NAME)


def read_records(spark: SparkSession, path: str, *, columns: Sequence[str] = (), **options: str) -> DataFrame:
    """Return the records of a store, those columns only if given; ``Options`` has what else may be given.

    Walks the log once in parallel to find where each split begins, so that no task has to.
    """
    register(spark)
    parsed = Options.parse({"path": path, **options})
    begins = find_begins(spark, parsed)
    reader = spark.read.format(NAME).options(path=path, begins=states.to_text(begins), **options)
    if columns:
        reader = reader.schema(StructType([parsed.known()[name] for name in columns]))
    return reader.load()


def find_begins(spark: SparkSession, options: Options) -> states.Begins:
    """Return the state of the sequential walk at each split's start."""
    plan = options.plan()
    splits, root = plan.splits, options.path
    if all(split.start == 0 for split in splits):
        return {}
    context = spark.sparkContext
    slices = min(len(splits), 4 * context.defaultParallelism)
    with workers_named("first walk of the log"):
        probes = context.parallelize(splits, slices).map(lambda split: states.probe(root, split)).collect()
    begins = states.stitch(splits, probes, lambda split, begin: states.probe(root, split, begin))
    require_same(plan.listing)
    return begins
