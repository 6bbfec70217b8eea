"""Tables of the jobs besides those of an audit: profiles, simulations, rebuilds and actions, column by column."""

from __future__ import annotations

from typing import Final

from storeio.replay import COLUMNS
from storeio.report.rows import DOUBLE, INT, LONG, STRING, TABLES, Column, may, must

RUNS: Final = "runs"
RECORDS: Final = "records"
PROFILE_RUNS: Final = "profile_runs"
SIMULATIONS: Final = "simulations"
ACTIONS: Final = "actions"
REBUILDS: Final = "rebuilds"
REBUILT_QUEUES: Final = "rebuilt_queues"
AUDITED_PARTS: Final = "audited_parts"
FINDING_HISTORY: Final = "finding_history"
SALVAGES: Final = "salvages"
SALVAGE_LOST: Final = "salvage_lost"
SALVAGED_MESSAGES: Final = "salvaged_messages"
STANDING: Final = (AUDITED_PARTS, FINDING_HISTORY)
"""Tables whose every row counts, whether its run was finished or not."""


def _columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """Return the columns of a table whose rows belong to a run and a store."""
    return (*TABLES[RUNS][:2], *(Column(name, kind, True, meaning) for name, kind, meaning in rows))


STANDING_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    AUDITED_PARTS: (
        *TABLES[RUNS][:2],
        must("kind", STRING, "split of the log, or file that is looked at whole"),
        must("path", STRING, "relative to the store root"),
        must("start", LONG, "first byte of the part"),
        must("stop", LONG, "behind its last byte"),
        must("looked_ms", LONG, "when it was looked at, Unix ms"),
        must("read_bytes", LONG, "bytes that were read for it, of the file and of what it implies"),
        must("fingerprint", STRING, "size, times and inode of the file before it was read"),
        must("settings", STRING, "digest of the tool's version and of the broker settings"),
        must("form", STRING, "digest of the form of content"),
        must("content", STRING, "what was said of the part, and on what that rests: JSON, zlib, base64"),
        must("digest", STRING, "BLAKE2b over all columns before"),
    ),
    FINDING_HISTORY: (
        TABLES[RUNS][1],
        must("finding_id", STRING, "digest of store, code, path, position, topic, queue_id, physical_offset"),
        must("code", STRING, "see docs/findings.md"),
        must("severity", STRING, "error or warning"),
        must("path", STRING, "relative to the store root"),
        must("position", LONG, "byte of the file"),
        may("topic", STRING, "of the affected queue"),
        may("queue_id", INT, "of the affected queue"),
        may("physical_offset", LONG, "first affected place of the commitlog"),
        must("detail", STRING, "as seen last"),
        must("first_seen_ms", LONG, "start of the first run that saw it, Unix ms"),
        must("first_run_id", STRING, "that run"),
        must("last_seen_ms", LONG, "start of the last run that saw it"),
        must("last_run_id", STRING, "that run"),
        may("cleared_ms", LONG, "start of the first complete run after that, which did not; null while it is open"),
        may("cleared_run_id", STRING, "that run"),
        may("length", LONG, "bytes from position on; null in rows of versions that did not keep it"),
    ),
}


_COUNTED: Final = (
    ("records", LONG, "valid records"),
    ("bytes", LONG, "their sizes"),
    ("body_bytes", LONG, "bytes of their bodies as stored"),
)
_TIMES: Final = (
    ("first_store_timestamp_ms", LONG, "store time of the oldest record, Unix ms"),
    ("last_store_timestamp_ms", LONG, "store time of the newest record, Unix ms"),
)
_SIZES: Final = (
    ("min_size", INT, "smallest record, bytes"),
    ("mean_size", DOUBLE, "mean size of a record, bytes"),
    ("max_size", INT, "largest record, bytes"),
)
_RATES: Final = (
    ("records_per_second", DOUBLE, "records over the time from the oldest to the newest; null if that is 0"),
    ("bytes_per_second", DOUBLE, "bytes over the same time"),
)
PROFILE_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "profile_topics": _columns(
        ("topic", STRING, "topic"),
        ("queues", LONG, "queues that records name"),
        *_COUNTED,
        *_SIZES,
        *_TIMES,
        *_RATES,
    ),
    "profile_queues": _columns(
        ("topic", STRING, "topic"),
        ("queue_id", INT, "queue id"),
        *_COUNTED,
        *_TIMES,
        *_RATES,
    ),
    "profile_tags": _columns(
        ("topic", STRING, "topic"),
        ("tag", STRING, "the property TAGS, null for records without it"),
        *_COUNTED,
        *_TIMES,
    ),
    "profile_time": _columns(
        ("topic", STRING, "topic"),
        ("bucket_start_ms", LONG, "start of the stretch of store time, Unix ms"),
        ("bucket_ms", LONG, "its length"),
        *_COUNTED,
        *_RATES,
    ),
    "profile_sizes": _columns(
        ("topic", STRING, "topic"),
        ("min_bytes", LONG, "records of at least this size, a power of two"),
        ("max_bytes", LONG, "and below this one"),
        *_COUNTED,
    ),
    "profile_segments": _columns(
        ("path", STRING, "segment, relative to the store root"),
        *_COUNTED,
        *_TIMES,
        *_RATES,
    ),
    PROFILE_RUNS: _columns(
        ("tool", STRING, "storeio"),
        ("version", STRING, "version of the tool"),
        ("arguments", STRING, "how the run was called"),
        ("started_ms", LONG, "start of the run, Unix ms"),
        ("seconds", DOUBLE, "how long it took"),
        ("topics", LONG, "topics with valid records"),
        *_COUNTED,
        *_TIMES,
        ("exit_code", INT, "0 all of the log is counted, 8 not all of it could be read, else that of the error"),
        ("failed", STRING, "what of the log could not be read, a line each, or why nothing is counted"),
    ),
}

MORE_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    **STANDING_TABLES,
    **PROFILE_TABLES,
    SIMULATIONS: _columns(
        ("started_ms", LONG, "start of the run, Unix ms"),
        ("line", STRING, "broker line that starts alike"),
        ("broker", STRING, "version that was simulated"),
        ("outcome", STRING, "starts, refuses, crashes or hangs"),
        ("reason", STRING, "why it does not start, or could not be simulated"),
        ("phrase", STRING, "what the broker logs then"),
        ("mode", STRING, "normal after a clean stop, abnormal with an abort file"),
        ("start_file", STRING, "segment in which recovery begins"),
        ("max_physical_offset", LONG, "end of the log after the start"),
        ("given_up", LONG, "intact messages that the start gives up; null where the log was not read for them"),
        ("given_up_bytes", LONG, "their sizes"),
        ("reissued_queues", LONG, "queues that hand out numbers again"),
        ("undecodable", LONG, "buffers that consumers cannot decode"),
        ("skipped", LONG, "units that consumers pass without a message"),
        (
            "stuck_queues",
            LONG,
            "queues in which consumers stay at an offset: pulls end with an error, or lead there again",
        ),
        ("deleted_files", LONG, "files that the start deletes"),
        ("exit_code", INT, "0 starts and gives nothing up, 4 harm, 8 could not be read, 16 not a store"),
        ("json", STRING, "the whole prediction"),
    ),
    ACTIONS: _columns(
        ("started_ms", LONG, "start of the run, Unix ms"),
        ("name", STRING, "the apply's name, by which it can be taken back; null of a plan"),
        ("number", LONG, "place in the plan, from 0"),
        ("kind", STRING, "write, create, resize, move, rename"),
        ("path", STRING, "relative to the store root"),
        ("target", STRING, "new name, of a rename"),
        ("position", LONG, "byte of the file"),
        ("length", LONG, "bytes from there on, or the file's new length"),
        ("old_sha256", STRING, "digest of what is replaced"),
        ("new_sha256", STRING, "digest of the new bytes"),
        ("risk", STRING, "derived, metadata, log"),
        ("reason", STRING, "why"),
        ("codes", STRING, "codes of the findings that ask for it, a comma between them"),
        ("topic", STRING, "of a queue's file"),
        ("queue_id", INT, "of a queue's file"),
        ("outcome", STRING, "planned, done or left"),
    ),
    REBUILDS: _columns(
        ("started_ms", LONG, "start of the rebuild, Unix ms; null where there is none"),
        ("seconds", DOUBLE, "how long it took"),
        ("into", STRING, "the directory that was written"),
        ("records", LONG, "valid records of the log"),
        ("queues", LONG, "queues that were built"),
        ("odd_queues", LONG, "of them with gaps, replaced or moved units"),
        ("index_files", LONG, "index files that were built"),
        ("index_entries", LONG, "their units"),
        ("files", LONG, "files that were written"),
        ("written_bytes", LONG, "bytes that were written; files are longer where they are not full"),
        (
            "exit_code",
            INT,
            "0 rebuilt, 4 the log is damaged or numbers are odd, +8 not all could be read, 16 not a store",
        ),
        ("error", STRING, "why nothing was built"),
        ("json", STRING, "the whole result"),
    ),
    REBUILT_QUEUES: _columns(
        ("topic", STRING, "topic"),
        ("queue_id", INT, "queue id"),
        ("kind", STRING, "cq, or bcq for batch queues"),
        ("min_queue_offset", LONG, "first queue offset, in units"),
        ("max_queue_offset", LONG, "the one behind the last"),
        ("units", LONG, "units of records"),
        ("gaps", LONG, "ranges of queue offsets that no record has"),
        ("missing", LONG, "queue offsets in them"),
        ("kept", LONG, "units in gaps that are the store's own"),
        ("filled", LONG, "units in gaps that repeat the one before"),
        ("replaced", LONG, "units whose number another record has"),
        ("moved", LONG, "units of records whose number contradicts its neighbours"),
    ),
    SALVAGES: _columns(
        ("started_ms", LONG, "start of the salvage, Unix ms; null where there is none"),
        ("seconds", DOUBLE, "how long it took"),
        ("into", STRING, "the directory that was written"),
        ("records", LONG, "records that are intact or were restored"),
        ("saved", LONG, "intact messages that the broker's next start would have given up"),
        ("restored", LONG, "records of which damaged fields were given their bytes back"),
        ("dropped", LONG, "records that are no messages"),
        ("lost", LONG, "messages that no byte of the store can supply"),
        ("tombstones", LONG, "records that take the numbers of lost messages"),
        ("fillers", LONG, "records that stand for nothing"),
        ("exit_code", INT, "0 nothing is lost, 4 messages are, 8 could not, 16 not a store"),
        ("error", STRING, "why nothing was saved"),
        ("json", STRING, "the whole result"),
    ),
    SALVAGE_LOST: _columns(
        ("topic", STRING, "topic"),
        ("queue_id", INT, "queue id"),
        ("first_queue_offset", LONG, "first queue offset of a range of lost messages"),
        ("stop_queue_offset", LONG, "the one behind the last"),
        ("physical_start", LONG, "physical offset from which on they lay"),
        ("physical_stop", LONG, "physical offset up to which they lay"),
        ("bytes", LONG, "how much they took; null where no queue unit tells"),
        ("evidence", STRING, "what tells of them"),
        ("tombstone", INT, "1 if records of their numbers were written, else 0"),
        ("first_store_timestamp_ms", LONG, "they were stored at this time or later"),
        ("last_store_timestamp_ms", LONG, "they were stored at this time or before"),
    ),
    SALVAGED_MESSAGES: _columns(*COLUMNS[1:]),
}

RUNS_OF: Final[dict[str, str]] = {
    **{name: name for name in (SIMULATIONS, ACTIONS, *STANDING)},
    **dict.fromkeys(PROFILE_TABLES, PROFILE_RUNS),
    **dict.fromkeys((REBUILDS, REBUILT_QUEUES), REBUILDS),
    **dict.fromkeys((SALVAGES, SALVAGE_LOST, SALVAGED_MESSAGES), SALVAGES),
}
"""By table of these, the one that lists its finished runs; itself where every row counts."""
