"""The messages of salvages as a data frame: workers read the new stores, a segment each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from storeio.paths import COMMITLOG
from storeio.replay import Provenance, arrow_schema, batches, messages
from storeio.scan import list_store


def salvaged_messages(
    spark: SparkSession, run_id: str, made: Sequence[tuple[Provenance, Path | str]], schema: StructType
) -> DataFrame:
    """Return the messages of salvages as rows of ``replay.COLUMNS`` behind the run's id.

    Args:
        spark: The session; its workers must see the new stores.
        run_id: In every row.
        made: Provenance and place of each new store.
        schema: Of the rows.
    """
    parts = [(i, file.path) for i, (_, root) in enumerate(made) for file in list_store(root).of_kind(COMMITLOG)]
    origins: Mapping[int, tuple[Provenance, Path | str]] = dict(enumerate(made))

    def rows(given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            for part in batch.to_pylist():
                origin, root = origins[part["store_no"]]
                for found in batches(messages(origin, root, only=part["path"])):
                    yield _with_run(found, run_id)

    frame = spark.createDataFrame(parts, "store_no int, path string").repartition(max(len(parts), 1))
    return frame.mapInArrow(rows, schema)


def _with_run(batch: pa.RecordBatch, run_id: str) -> pa.RecordBatch:
    columns = [pa.array([run_id] * batch.num_rows, pa.string()), *batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=["run_id", *arrow_schema().names])
