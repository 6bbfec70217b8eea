"""Records of stores -> counts by all that the profile's tables tell apart -> the tables, each a sum over the counts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from storeio.uris import shown
from udfs.datasource import read_records

READ: Final = ("path", "topic", "queue_id", "tag", "store_timestamp_ms", "size", "body_length", "valid")
FINEST: Final = ("store", "path", "topic", "queue_id", "tag", "bucket_start_ms", "min_bytes")


def records_of(spark: SparkSession, stores: Sequence[str], options: dict[str, str]) -> DataFrame:
    """Return the records of all stores, with the columns that are counted, of what can be listed."""
    parts = [
        read_records(spark, store, columns=READ, partial="true", **options).withColumn("store", F.lit(shown(store)))
        for store in stores
    ]
    return functools.reduce(DataFrame.unionByName, parts)


def counted(records: DataFrame, bucket_ms: int) -> DataFrame:
    """Return how many valid records, and how large, there are of everything that a table tells apart."""
    store_ms, size = F.col("store_timestamp_ms"), F.col("size").cast("long")
    told = records.filter("valid").withColumns(
        {
            "bucket_start_ms": F.floor(store_ms / bucket_ms).cast("long") * bucket_ms,
            "min_bytes": F.pow(F.lit(2.0), F.length(F.bin("size")) - 1).cast("long"),
        }
    )
    return told.groupBy(*FINEST).agg(
        F.count("*").alias("records"),
        F.sum(size).alias("bytes"),
        F.sum(F.col("body_length").cast("long")).alias("body_bytes"),
        F.min("size").alias("min_size"),
        F.max("size").alias("max_size"),
        F.min(store_ms).alias("first_store_timestamp_ms"),
        F.max(store_ms).alias("last_store_timestamp_ms"),
    )


def summed(counts: DataFrame, *keys: str) -> DataFrame:
    """Return the counts added up by store and these keys, with sizes, times and rates."""
    added = counts.groupBy("store", *keys).agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.sum("body_bytes").alias("body_bytes"),
        F.min("min_size").alias("min_size"),
        F.max("max_size").alias("max_size"),
        F.min("first_store_timestamp_ms").alias("first_store_timestamp_ms"),
        F.max("last_store_timestamp_ms").alias("last_store_timestamp_ms"),
        F.countDistinct("queue_id").alias("queues"),
        F.countDistinct("topic").alias("topics"),
    )
    seconds = (F.col("last_store_timestamp_ms") - F.col("first_store_timestamp_ms")) / 1000
    return with_rates(added.withColumn("mean_size", F.col("bytes") / F.col("records")), seconds)


def with_rates(frame: DataFrame, seconds: Column) -> DataFrame:
    """Return the frame with records and bytes per second; null where no time has passed."""
    passed = F.when(seconds > 0, seconds)
    rates = {name: (F.col(name.split("_")[0]) / passed) for name in ("records_per_second", "bytes_per_second")}
    return frame.withColumns(rates)


def profile(counts: DataFrame, bucket_ms: int) -> dict[str, DataFrame]:
    """Return the rows of each table but ``profile_runs``, without the run's id."""
    over_time = summed(counts, "topic", "bucket_start_ms").withColumn("bucket_ms", F.lit(bucket_ms))
    return {
        "profile_topics": summed(counts, "topic"),
        "profile_queues": summed(counts, "topic", "queue_id"),
        "profile_tags": summed(counts, "topic", "tag"),
        "profile_time": with_rates(over_time, F.col("bucket_ms") / 1000),
        "profile_sizes": summed(counts, "topic", "min_bytes").withColumn("max_bytes", 2 * F.col("min_bytes")),
        "profile_segments": summed(counts, "path"),
    }
