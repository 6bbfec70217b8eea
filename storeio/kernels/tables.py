"""The tables that the walk fills: their rows, the marks of records, the classes of bytes."""

from __future__ import annotations

from typing import Final

# Rows of the record table, all int64. Positions are those of the segment.
(
    R_POSITION, R_SIZE, R_QUEUE, R_QUEUE_OFFSET, R_TAGS_CODE, R_STORE_MS, R_SYS_FLAG, R_MARKS, R_PHYSICAL,
    R_BODY_BYTES, R_PROPERTIES_AT, R_PROPERTIES_BYTES, R_BATCH_BASE, R_BATCH_SIZE, R_BORN_MS, R_STORE_HOST,
    R_BORN_HOST, R_FLAG,
) = range(18)  # fmt: skip
RECORD_ROWS: Final = 18

# Marks of a record: what is odd about one that a broker accepts (low bits), and what it is (high bits).
MARK_PHYSICAL: Final = 1 << 0  # its physical offset is not where it lies
MARK_QUEUE_ID: Final = 1 << 1  # negative
MARK_QUEUE_OFFSET: Final = 1 << 2  # negative
MARK_SYS_FLAG: Final = 1 << 3  # bits that no broker sets, or not in such a record
MARK_HOST: Final = 1 << 4  # a port outside 0..65535
MARK_LENGTH: Final = 1 << 5  # a negative length that counts as 0
MARK_CRC_OF_NOTHING: Final = 1 << 6  # a CRC, but no body
MARK_RECONSUME: Final = 1 << 7  # negative
MARK_PREPARED: Final = 1 << 8  # offset of the prepared message negative, or not before the record
MARK_TIME: Final = 1 << 9  # store time zero or negative
MARK_BORN: Final = 1 << 10  # born time zero or negative, or years away from the store time
MARK_PROPERTY_CRC: Final = 1 << 11  # the property CRC does not agree
MARK_ODD_PROPERTY: Final = 1 << 12  # a piece that is no name and value
MARK_TEXT: Final = 1 << 13  # malformed UTF-8 or control characters in topic or properties
MARK_MANY_RETRIES: Final = 1 << 14  # more reconsume times than any group retries
MARK_BORN_APART: Final = 1 << 15  # born well after it was stored, or days before
MARK_INNER_NUM: Final = 1 << 16  # an inner batch whose body holds another number of messages than it says
MARK_INNER_BASE: Final = 1 << 17  # an inner batch whose queue offset is not the first number of its properties
MARK_LEVEL: Final = 1 << 18  # a delayed message whose level is not that of its queue, or is gone
MARKS_ODD: Final = (1 << 19) - 1
MARK_HAS_PROPERTY_CRC: Final = 1 << 20
MARK_MULTI: Final = 1 << 21  # light queues: has both multi-dispatch properties
MARK_INNER_BATCH: Final = 1 << 22
MARK_SCHEDULED: Final = 1 << 23

# Classes of bytes.
RECORD: Final = 0
BLANK: Final = 1
ZERO: Final = 2
STALE: Final = 3
TORN: Final = 4
GARBAGE: Final = 5

# More reasons, for spans that are no records; 1 to 9 are those of the head.
WHY_BLANK_SIZE: Final = 20  # a blank record with another size than the rest
WHY_BLANK_DIRTY: Final = 21  # bytes behind the blank record's head
WHY_BLANK_EARLY: Final = 22  # a blank record in front of newer records
WHY_MISPLACED: Final = 23  # intact, but another physical offset
WHY_OLDER: Final = 24  # intact and in place, but older than what lies in front: behind a cut
WHY_SEARCHED: Final = 25  # skipped while looking for a start

# Modes.
CHAIN: Final = 0  # a record must start here
SEARCH: Final = 1  # a record may start anywhere from here
RESUMED: Final = 2  # a record starts here, found by search: it may be stale

# Places in the state.
(S_POSITION, S_MODE, S_TIME_1, S_TIME_2, S_RECORDS, S_KEYS, S_SPANS, S_QUEUES, S_ASKED) = range(9)
STATE_PLACES: Final = 9
UNKNOWN: Final = -(2**63)

# What the walk answers.
DONE: Final = 0
NEED_BYTES: Final = 1
FULL_RECORDS: Final = 2
FULL_KEYS: Final = 3
FULL_SPANS: Final = 4
FULL_QUEUES: Final = 5
FULL_NAMES: Final = 6

# Rows of the span table and of the queue table. A queue's topic lies in the names, which have room in front of them.
(SPAN_START, SPAN_STOP, SPAN_CLASS, SPAN_WHY) = range(4)
(Q_TOPIC_AT, Q_TOPIC_BYTES, Q_QUEUE_ID, Q_HASH, Q_SEED, Q_SCHEDULED) = range(6)

NAMES_FROM: Final = 8

HASH_MASK: Final = 2**56 - 1  # 31 times it still fits 64 bits
GAP_BLOCK: Final = 64  # zero and other bytes of a gap are told apart in aligned blocks of this
MANY_RETRIES: Final = 64  # retryMaxTimes is 16 unless somebody raised it
BORN_WRONG_MS: Final = 10 * 366 * 86_400_000  # no clock is so far off
BORN_LATE_MS: Final = 5_000  # a producer's clock ahead of the broker's by more is unusual
BORN_EARLY_MS: Final = 3 * 86_400_000  # older than retention keeps messages
