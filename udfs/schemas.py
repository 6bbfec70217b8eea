"""Spark schemas: of numpy dtypes, and of what the ``rocketmq_store`` data source yields."""

from __future__ import annotations

from typing import Final

import numpy as np
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from storeio.format import batchqueue, consumequeue, index

RECORDS: Final = "records"
UNITS: Final = "units"
BATCH_UNITS: Final = "batch_units"
INDEX_UNITS: Final = "index"
KINDS: Final = (RECORDS, UNITS, BATCH_UNITS, INDEX_UNITS)

_STORED: Final = {
    "physical_offset": "where the record lies in the commitlog, bytes; as stored",
    "size": "the whole record, bytes; as stored",
    "tags_code": "hash of the tag, deliver time, or address in an ext file",
    "store_timestamp_ms": "broker's clock, Unix ms; as stored",
    "base_queue_offset": "queue offset of the batch's first message",
    "compacted_offset": "-1",
    "reserved": "0",
    "previous": "number of the unit before it in the same hash slot; 0: none",
    "batch_size": "units of queue numbering that the batch takes",
    "key_hash": "hash of topic and key",
    "seconds": "store time, seconds after the file's begin",
}
_SPARK: Final[dict[int, DataType]] = {2: ShortType(), 4: IntegerType(), 8: LongType()}


def schema_of(dtype: np.dtype[np.void]) -> StructType:
    """Return the Spark schema of a structured dtype of whole numbers: same names, same order."""
    return StructType(
        [_field(name, _SPARK[dtype[name].itemsize], _STORED.get(name, "as stored")) for name in dtype.names or ()]
    )


def _field(name: str, kind: DataType, comment: str = "") -> StructField:
    return StructField(name, kind, nullable=True, metadata={"comment": comment} if comment else {})


RECORD_SCHEMA: Final = StructType(
    [
        _field("path", StringType(), "segment, relative to the store root"),
        _field("physical_offset", LongType(), "where the record lies in the commitlog, bytes"),
        _field("size", IntegerType(), "the whole record, bytes"),
        _field("magic", IntegerType(), "magic code"),
        _field("topic", StringType(), "topic; malformed bytes as Java decodes them"),
        _field("queue_id", IntegerType(), "queue id as stored"),
        _field("queue_offset", LongType(), "position in the queue, units"),
        _field("sys_flag", IntegerType(), "compression, transaction state, IPv6 host bits"),
        _field("flag", IntegerType(), "the producer's flag"),
        _field("born_timestamp_ms", LongType(), "producer's clock, Unix ms"),
        _field("born_host", StringType(), "producer's address and port"),
        _field("store_timestamp_ms", LongType(), "broker's clock, Unix ms"),
        _field("store_host", StringType(), "broker's address and port"),
        _field("reconsume_times", IntegerType(), "how often consumption was tried again"),
        _field("prepared_transaction_offset", LongType(), "physical offset of the prepared message"),
        _field("body_crc", IntegerType(), "CRC-32 of the body as stored, low 31 bits"),
        _field("body_length", IntegerType(), "body, bytes"),
        _field("properties", MapType(StringType(), StringType()), "message properties, as stored"),
        _field("tag", StringType(), "the property TAGS"),
        _field("tags_code", LongType(), "as the broker dispatches it; null where it does not"),
        _field("batch_size", IntegerType(), "units of queue numbering that the record takes"),
        _field("extent", LongType(), "bytes that it takes in the segment, whatever its size says"),
        _field("valid", BooleanType(), "a broker accepts it, and it is of this place and time"),
        _field("why", StringType(), "why it is not valid"),
    ]
)
BODY_FIELD: Final = _field("body", BinaryType(), "body as stored, compressed where sys_flag says so")

_PLACE: Final = [
    _field("path", StringType(), "queue file, relative to the store root"),
    _field("topic", StringType(), "topic, from the path"),
    _field("queue_id", IntegerType(), "queue id, from the path"),
]
_POSITION: Final = _field("position", LongType(), "byte position in the file")
UNIT_SCHEMA: Final = StructType(
    [
        *_PLACE,
        _POSITION,
        _field("queue_offset", LongType(), "position in the queue, units"),
        *schema_of(consumequeue.UNIT),
        _field("pre_blank", BooleanType(), "filler in front of the first unit"),
    ]
)
BATCH_UNIT_SCHEMA: Final = StructType([*_PLACE, _POSITION, *schema_of(batchqueue.UNIT)])
INDEX_SCHEMA: Final = StructType(
    [
        _field("path", StringType(), "index file, relative to the store root"),
        _POSITION,
        _field("number", IntegerType(), "number of the unit in its file"),
        *schema_of(index.UNIT),
        _field("store_timestamp_ms", LongType(), "the file's begin plus the unit's seconds, Unix ms"),
    ]
)
SCHEMAS: Final = {
    RECORDS: RECORD_SCHEMA,
    UNITS: UNIT_SCHEMA,
    BATCH_UNITS: BATCH_UNIT_SCHEMA,
    INDEX_UNITS: INDEX_SCHEMA,
}


def as_markdown() -> str:
    """Return the columns of all kinds as tables for the documentation."""
    parts = []
    for what, schema in SCHEMAS.items():
        fields = [*schema.fields, *([BODY_FIELD] if what == RECORDS else [])]
        rows = [f"| `{f.name}` | {f.dataType.simpleString()} | {f.metadata.get('comment', '')} |" for f in fields]
        parts.append("\n".join([f"### `what => '{what}'`", "", "| column | type | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
