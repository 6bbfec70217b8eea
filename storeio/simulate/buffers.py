"""The bytes that a broker hands out for a unit, and whether a client makes a message of them.

Source: ``CommitLog.getMessage``, ``MessageDecoder.decode``.
"""

from __future__ import annotations

import struct

from storeio.format import commitlog as log
from storeio.simulate.broker import Broker
from storeio.simulate.ends import JavaError
from storeio.simulate.java import as_int, remainder
from storeio.simulate.rules import Rules


def message_at(broker: Broker, offset: int, size: int) -> memoryview | None:
    """Return what a pull gets of the log for a unit, None where it takes the message for one that is removed.

    Raises:
        JavaError: The pull ends with it.
    """
    file = broker.log.find(offset, or_first=offset == 0)
    if file is None:
        return None
    at = remainder(offset, broker.log.size)
    if at < 0:
        return None
    if as_int(at + size) > file.wrote:
        return None
    if size < 0 or at + size > file.size:
        raise JavaError("IllegalArgumentException")
    return broker.bytes_of(file, at, at + size)


def is_there(broker: Broker, offset: int, size: int) -> bool:
    """Tell whether a unit that was skipped because of another one points at a message."""
    try:
        data = message_at(broker, offset, size)
    except JavaError:
        return False
    return data is not None and len(data) >= log.MIN_RECORD_BYTES and decodes(data, broker.rules)


def decodes(data: memoryview, rules: Rules) -> bool:
    """Tell whether a client's decoder makes a message of a buffer; it checks lengths and ports."""
    try:
        return _decoded(data, rules)
    except struct.error:
        return False


def _decoded(data: memoryview, rules: Rules) -> bool:
    _, magic, _, _, _, _, _, sys_flag, _ = struct.unpack_from(">iiiiiqqiq", data)
    if rules.checked_magic and magic != log.MAGIC_V1 and not (magic == log.MAGIC_V2 and rules.long_topics):
        return False
    born, store = log.host_bytes(sys_flag)
    at = log.BORN_HOST_AT + born
    ports = [struct.unpack_from(">i", data, at - 4)[0], struct.unpack_from(">i", data, at + 8 + store - 4)[0]]
    if not all(0 <= port <= 0xFFFF for port in ports):
        return False
    at += 8 + store + 12
    (length,) = struct.unpack_from(">i", data, at)
    at += 4 + max(length, 0)
    wide = rules.long_topics and magic == log.MAGIC_V2
    (topic,) = struct.unpack_from(">h" if wide else ">b", data, at)
    at += (2 if wide else 1) + topic
    if topic < 0 or at > len(data):
        return False
    (properties,) = struct.unpack_from(">h", data, at)
    return at + 2 + max(properties, 0) <= len(data)
