"""The table of finding codes: one row each. Codes never change meaning.

``docs/findings.md`` is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"
SEVERITIES: Final = (ERROR, WARNING, INFO)


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding: what was seen, why it happens, what helps."""

    name: str
    severity: str
    sentence: str
    cause: str
    remedy: str


_REBUILD = "Rebuild the queue from the commitlog."
_REINDEX = "Rebuild the index from the commitlog."
SALVAGE = "Salvage: keep what is intact, fill the hole, or take the bytes from a replica."
_BROKER_CUTS = "A broker that scans this file cuts the log here and deletes every later file."

_TABLE: Final = (
    # layout
    Code("STRAY_FILE", ERROR, "a file that is none of the broker's lies in a data directory",
         "A backup copy, a temporary file or an editor's leftover.", "Move it out of the store; brokers refuse to start with it."),
    Code("STRAY_DIRECTORY", WARNING, "a directory lies where only files belong",
         "lost+found of a mount, or a copied directory.", "Move it out of the store; some brokers refuse to start with it."),
    Code("LOG_LENGTH", ERROR, "a segment has another length than the others",
         "A truncated or padded copy, a full disk, or a crash while the file was made.", "Pad it with zeros to the full length, or restore it; brokers refuse to start."),
    Code("CQ_LENGTH", ERROR, "a consume queue file has another length than the others",
         "A truncated or padded copy, or a crash while the file was made.", _REBUILD),
    Code("BCQ_LENGTH", ERROR, "a batch queue file has another length than the others",
         "A truncated or padded copy, or a crash while the file was made.", _REBUILD),
    Code("EXT_LENGTH", ERROR, "a queue ext file has another length than the others",
         "A truncated or padded copy, or a crash while the file was made.", _REBUILD),
    Code("INDEX_LENGTH", ERROR, "an index file has another length than the others",
         "A truncated or padded copy.", _REINDEX),
    Code("MISALIGNED_NAME", ERROR, "a file's name is no multiple of the file size, or not of 20 digits",
         "A renamed file, or files of several settings in one directory.", "Rename it to the offset that its content names."),
    Code("QUEUE_TYPE", ERROR, "a topic has queues of another type than config/topics.json gives it",
         "A table of another time or store, or a queue directory that was moved.", "Give the topic the type of its queues in config/topics.json (attribute queue.type); 5.x brokers refuse to start."),
    Code("QUEUE_ELSEWHERE", ERROR, "a topic's directory of queues holds none of the type that the topic has",
         "A queue directory that was moved or copied to another place.", "Move it out of the store and rebuild the queues; 5.x brokers refuse to start with it."),
    Code("LOG_MISSING", ERROR, "there is no commitlog, but there are queues or indexes",
         "A wrong mount or a deleted directory.", "Do not start a broker: it deletes all queues. Mount or restore the commitlog first."),
    Code("LOG_GAP", ERROR, "segments are missing between others",
         "A deleted file, or one of several commitlog directories is not mounted.", SALVAGE),
    Code("LOG_STARTS_LATE", INFO, "queue units point below the start of the log",
         "Normal after retention has deleted old segments; otherwise the first segments are lost.", "None, if retention did it."),
    Code("LOG_TAIL_LOST", ERROR, "queues or indexes point at records behind the end of the log",
         "The last segment was lost, zeroed or cut, e.g. by a power loss.", "Take the tail from a replica, or cut queues, index and consumer offsets back to the end of the log."),
    Code("UNREADABLE", ERROR, "a file could not be read",
         "Permissions, a failing disk, or a file that vanished meanwhile.", "Make it readable and check again; nothing is known of its bytes."),
    Code("UNSUPPORTED_LAYOUT", INFO, "files of a kind that this audit does not read",
         "RocksDB queues or configuration, compacted topics, a DLedger log.", "None here; only what is listed was checked."),
    Code("STRAY_PASSED_OVER", INFO, "a file that brokers pass over lies among the queues' directories",
         "Something that a person or a tool left there.", "None needed; move it out of the store to have its bytes out of the way."),
    # commitlog
    Code("LOG_BODY_CRC", ERROR, "a message body does not have its CRC",
         "Bytes changed on the disk, or a write that never reached it.", _BROKER_CUTS + " " + SALVAGE),
    Code("LOG_TORN_RECORD", ERROR, "a record is damaged; its neighbours show where it ends",
         "A torn write, a flipped bit in a length, or overwritten bytes.", _BROKER_CUTS + " " + SALVAGE),
    Code("LOG_GARBAGE", ERROR, "bytes that are no records lie between records",
         "Overwritten or misplaced bytes.", _BROKER_CUTS + " " + SALVAGE),
    Code("LOG_HOLE", ERROR, "zeros lie where records were",
         "Pages that were never written before a power loss, or a sparse copy.", _BROKER_CUTS + " " + SALVAGE),
    Code("LOG_BLANK_MISSING", ERROR, "a segment with a successor does not end in a blank record",
         "The end of the file was overwritten or lost.", _BROKER_CUTS + " Write a blank record with the true rest."),
    Code("LOG_BLANK_SIZE", WARNING, "a blank record has another size than the rest of its segment",
         "Its size field was damaged.", "Write the true rest; brokers from 5.3.2 on cut the log where it exceeds the file."),
    Code("LOG_BLANK_EARLY", ERROR, "a blank record hides newer records behind it",
         "A blank record was written over live data.", _BROKER_CUTS + " Restore the record that it covers."),
    Code("LOG_BLANK_DIRTY", INFO, "the rest behind a blank record is not zero",
         "The file was truncated and reused, or written without a mapping.", "None; no broker reads it."),
    Code("LOG_STALE", WARNING, "intact records of another place or time lie in the log",
         "A truncated and rewritten tail, a reused file, or a renamed segment.", "Zero them, so that no recovery takes them for live ones."),
    Code("LOG_DIRTY_TAIL", WARNING, "bytes that are not zero lie behind the end of the log",
         "A torn last write, or the rest of a truncated tail.", "Zero the tail, or salvage what is intact in it."),
    Code("LOG_SEGMENT_MISNAMED", ERROR, "all records of a segment say that it has another name",
         "The file was renamed or copied to a wrong name.", "Rename it to what its records say."),
    Code("LOG_PHYSICAL_OFFSET", ERROR, "a record's physical offset is not where it lies",
         "The field was damaged.", "Write the true offset; brokers index the wrong place."),
    Code("LOG_FIELD", ERROR, "a record's header holds a value that no broker writes",
         "The field was damaged.", "Restore the field from a replica, or mark the message as damaged."),
    Code("LOG_TIME", WARNING, "a record's store time does not fit its neighbours",
         "The field was damaged, or the broker's clock jumped.", "Restore the time from the index or a neighbour; recovery and time queries depend on it."),
    Code("LOG_TOPIC", WARNING, "a record's topic is no legal topic name",
         "The topic was damaged; brokers themselves make a directory of any name.", "Compare with the queue unit that points at the record."),
    Code("LOG_UNUSUAL", INFO, "a record's header holds a value that brokers may write but hardly do",
         "The field was damaged, or an unusual configuration.", "Compare the record with its neighbours or a replica."),
    Code("LOG_PROPERTY_CRC", ERROR, "a record does not have its property CRC",
         "A header or property byte changed on the disk.", SALVAGE),
    Code("LOG_PROPERTIES", WARNING, "a record's properties hold what no producer writes",
         "A damaged separator or character; readers drop or alter it.", "Restore the properties from a replica."),
    Code("LOG_MULTI_DISPATCH", ERROR, "a number in a record's list of light queues is none",
         "A list that names another queue before a light one (5.x brokers write no number for that), or damage.", "Start brokers with enableMultiDispatch=false until the record has expired. With it they refuse to start, or stop at the record: nothing behind it gets into queues and index."),
    Code("LOG_UNIT_DISAGREES", WARNING, "a record disagrees with the queue unit that points at it",
         "The record's topic, queue, queue offset or tags were damaged, or the unit was.", "Compare the record with its neighbours; rebuild the queue if the record is right."),
    Code("LOG_INDEX_DISAGREES", WARNING, "a record disagrees with the index units that point at it",
         "The record's keys, topic or store time were damaged, or the units were.", "Compare the record with its neighbours; rebuild the index if the record is right."),
    Code("LOG_QUEUE_OFFSET_GAP", ERROR, "queue offsets are missing between two records of a queue",
         "Messages were lost, or a queue offset was damaged.", SALVAGE),
    Code("LOG_QUEUE_OFFSET_REPEATED", WARNING, "a queue offset was issued twice",
         "The broker lost a tail, a queue was shortened or restarted; the later record wins.", "Consumers may see both or one; rebuild the queue to settle it."),
    # consume queues
    Code("CQ_MISSING", ERROR, "a queue has no file where records have their units",
         "A deleted queue directory or file.", _REBUILD + " A broker would restart the queue's numbers or skip the messages."),
    Code("CQ_UNWRITTEN", WARNING, "a queue's file holds zeros alone, and the log no record for it",
         "It was created for a message that the log lost, or right before a crash; or damaged bytes named a queue.", "Move it aside: brokers take its first unit for a message that nobody can read, and give the next one the number behind it."),
    Code("CQ_MAYBE_MISSING", INFO, "a queue's next file may have been lost together with the tail of the log",
         "The queue's last file is full, and lost records that no unit names may have been its own.", "Compare with a replica."),
    Code("CQ_UNIT_MISSING", ERROR, "a record has no unit in its queue",
         "The unit was never flushed, or was zeroed.", _REBUILD),
    Code("CQ_UNIT_WRONG", ERROR, "a unit points at another place than the record that it stands for",
         "The unit was damaged or overwritten.", _REBUILD),
    Code("CQ_TAGS_CODE", ERROR, "a unit's tags code is not that of its record",
         "The unit or the record's tags were damaged; filtering consumers miss the message.", _REBUILD),
    Code("CQ_SHIFTED", ERROR, "units stand at other queue offsets than their records say",
         "A broker appended them behind lost ones.", _REBUILD),
    Code("CQ_UNIT_ORPHAN", ERROR, "a unit points at no record of its queue",
         "The unit was damaged, or its record is.", _REBUILD),
    Code("CQ_BEYOND_LOG", ERROR, "a unit points behind the end of the log",
         "The log lost its tail, or the unit was damaged.", _REBUILD + " Consumers skip good messages behind such a unit."),
    Code("CQ_INTO_DAMAGE", WARNING, "a unit points at a record that is damaged or lost",
         "The commitlog is damaged there.", "Repair the commitlog first; the unit tells the lost record's place and size."),
    Code("CQ_PRE_BLANK", ERROR, "filler units lie behind real ones, alone in a queue, or in front of messages in the log's first segment",
         "A crash between filling and the first append, a damaged unit, or queues that a broker built from a log that lacks the first messages.",
         _REBUILD + " As the last unit it stops the queue, in 4.x all queues; in front it hides messages from consumers."),
    Code("CQ_HOLE", ERROR, "zero units lie between written ones",
         "Pages that were never written, or a zeroed range.", _REBUILD),
    Code("CQ_GAP", ERROR, "a queue file is missing between others",
         "A deleted file; consumers jump over it.", _REBUILD),
    Code("CQ_DIRTY_TAIL", WARNING, "bytes that are not zero lie behind the last unit",
         "Units left behind by a truncation, or damage.", "Zero them; a later recovery may revive them."),
    Code("CQ_DELIVER_TIME", WARNING, "a delayed message's unit holds a tag hash and no deliver time",
         "4.9.2 to 4.9.8 rebuild schedule queues so after a crash.", _REBUILD + " The message is delivered at once."),
    Code("CQ_DELAY_LEVEL", INFO, "a delayed message's unit has the deliver time of other delay levels",
         "messageDelayLevel was another one when the message came, or is not the default and was not given.",
         "None; the message is delivered at its time, or at the latest after the delay that its level has now. State messageDelayLevel with --conf or --set."),
    # batch queues and ext files
    Code("BCQ_MISSING", ERROR, "a batch queue has no file where records have their units", "A deleted file or directory.", _REBUILD),
    Code("BCQ_UNWRITTEN", WARNING, "a batch queue's file holds zeros alone, and the log no record of the queue",
         "It was created for a message that the log lost.", "Move it aside: brokers take its first unit for a message, and consumers do not get the next ones."),
    Code("BCQ_UNIT_MISSING", ERROR, "a record has no unit in its batch queue", "The unit was never flushed, or was zeroed.", _REBUILD),
    Code("BCQ_UNIT_WRONG", ERROR, "a batch queue unit differs from what its record implies", "The unit was damaged.", _REBUILD),
    Code("BCQ_UNIT_ORPHAN", ERROR, "a batch queue unit points at no record of its queue", "The unit was damaged, or its record is.", _REBUILD),
    Code("BCQ_DIRTY_TAIL", WARNING, "bytes that are not zero lie behind the last batch queue unit", "Left behind by a truncation, or damage.", "Zero them."),
    Code("EXT_CHAIN", ERROR, "the sizes of queue ext units do not lead through the file", "A damaged size; brokers refuse to start with it.", _REBUILD),
    # index
    Code("INDEX_MISSING", WARNING, "records have keys, but no index file has any",
         "Deleted files, or messageIndexEnable is off.", _REINDEX + " Or state messageIndexEnable=false."),
    Code("INDEX_HEADER", ERROR, "an index header disagrees with its units",
         "The header was damaged or never flushed.", _REINDEX),
    Code("INDEX_CHAIN", ERROR, "a hash slot or a unit's previous number is wrong",
         "The slot or unit was damaged; queries miss messages or never end.", _REINDEX),
    Code("INDEX_UNIT_WRONG", ERROR, "an index unit differs from what its record implies",
         "The unit was damaged, or the record's keys or time were.", _REINDEX),
    Code("INDEX_UNIT_MISSING", WARNING, "a record's keys are not in the index",
         "The active index file is dropped after every crash; or units were damaged.", _REINDEX),
    Code("INDEX_UNIT_ORPHAN", WARNING, "an index unit points at no record",
         "The unit was damaged, or its record is.", _REINDEX),
    Code("INDEX_BEYOND_LOG", WARNING, "an index file points behind the end of the log",
         "The log lost its tail; new messages are not indexed until the log has passed it.", _REINDEX),
    Code("INDEX_ORDER", WARNING, "an index file's name is not in the order of what the file points at",
         "A renamed or copied file, or a broker's clock that was set back; queries by message id, which begin at a time, end before they reach all files.", _REINDEX),
    Code("INDEX_COPY", WARNING, "an index file repeats another one",
         "A copy was left beside a file, or put back under another name; queries return messages twice, and so fewer of them.", _REINDEX),
    Code("INDEX_DUPLICATE", INFO, "a message's index units stand twice", "Re-dispatch after a restart.", "None; queries return it twice."),
    Code("INDEX_DIRTY_TAIL", WARNING, "bytes that are not zero lie behind the last index unit", "Damage, or a header that counts too few.", _REINDEX),
    # checkpoint, abort
    Code("CHECKPOINT_MISSING", WARNING, "there is no checkpoint",
         "Deleted; after a crash recovery then starts at the first segment.", "Write one from the log."),
    Code("CHECKPOINT_LENGTH", WARNING, "the checkpoint has another length than 4096 bytes", "A truncated or foreign file.", "Write one from the log."),
    Code("CHECKPOINT_AHEAD", WARNING, "the checkpoint is ahead of the log",
         "The log lost its tail, or the checkpoint was damaged; recovery then starts too late.", "Write one from the log."),
    Code("CHECKPOINT_BEHIND", INFO, "the checkpoint is behind the log", "Normal within a minute of writing; more means more work for recovery.", "None."),
    Code("CHECKPOINT_FIELD", WARNING, "the checkpoint holds a value that no broker writes", "The field was damaged.", "Write one from the log."),
    Code("ABORT_PRESENT", INFO, "the broker is running or did not stop cleanly",
         "A crash, a kill, a full disk, or a running broker.", "None; the next start is an abnormal recovery."),
)  # fmt: skip

CODES: Final[dict[str, Code]] = {code.name: code for code in _TABLE}
DOUBT_CODES: Final = frozenset((
    "LOG_PHYSICAL_OFFSET", "LOG_FIELD", "LOG_PROPERTY_CRC", "LOG_UNIT_DISAGREES", "LOG_TOPIC", "LOG_PROPERTIES",
    "LOG_TIME", "LOG_INDEX_DISAGREES",
))  # fmt: skip
"""Findings at records that a broker accepts, and of which some say that the record is not as it was."""
