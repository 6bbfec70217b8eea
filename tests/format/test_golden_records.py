"""Every record that a broker wrote, as we decode it, equals what the broker's own decoder printed."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import golden_data as golden
import numpy as np
import pytest
import slow
from golden_data import java_map
from walks import Reader

from storeio.format import commitlog as log
from storeio.format import properties
from storeio.kernels import tables as w
from storeio.splits import Split
from storeio.walk import walk_split
from storeio.window import Bytes


def segments(name: str) -> list[tuple[int, Bytes]]:
    """Return base offset and bytes of each commitlog segment, in order."""
    files = sorted((golden.store(name) / "commitlog").iterdir())
    return [(int(path.name), np.frombuffer(path.read_bytes(), np.uint8)) for path in files]


def java_host(host: log.Host) -> str:
    """Return the host as Java's ``SocketAddress`` prints it."""
    if len(host.address) == 4:
        return f"/{ipaddress.IPv4Address(host.address)}:{host.port}"
    groups = [int.from_bytes(host.address[i : i + 2], "big") for i in range(0, 16, 2)]
    return f"/[{':'.join(f'{group:x}' for group in groups)}]:{host.port}"


def decoded_row(raw: bytes, physical: int) -> dict[str, str]:
    """Return one row of the dump from a record's bytes, but for tags code and batch size."""
    record = log.decode_record(raw)
    pairs = properties.parse(record.properties)
    return {
        "phy_offset": str(physical),
        "size": str(record.size),
        "topic": properties.java_decode(record.topic),
        "queue_id": str(record.queue_id),
        "queue_offset": str(record.queue_offset),
        "sys_flag": str(record.sys_flag),
        "store_timestamp": str(record.store_timestamp_ms),
        "keys": pairs.get("KEYS", "" if not record.properties else "null"),
        "uniq_key": pairs.get("UNIQ_KEY", "null"),
        "prepared_offset": str(record.prepared_transaction_offset),
        "body_crc": str(record.body_crc),
        "born_timestamp": str(record.born_timestamp_ms),
        "born_host": java_host(record.born_host),
        "store_host": java_host(record.store_host),
        "flag": str(record.flag),
        "reconsume": str(record.reconsume_times),
        "body_len": str(len(record.body)),
        "properties": java_map(pairs),
    }


@pytest.mark.parametrize("name", golden.STORES)
def test_records_equal_broker_decode(name: str) -> None:
    rows = []
    for base, data in segments(name):
        split = Split("", base, len(data), 0, len(data))
        walked = walk_split(Reader(data), split)
        table = walked.records
        for n in range(walked.count):
            position, size = int(table[w.R_POSITION, n]), int(table[w.R_SIZE, n])
            row = decoded_row(walked.field(position, size), base + position)
            row["tags_code"] = str(table[w.R_TAGS_CODE, n])
            row["batch_size"] = str(table[w.R_BATCH_SIZE, n])
            topic, queue_id = walked.queues[int(table[w.R_QUEUE, n])]
            assert (properties.java_decode(topic), str(queue_id)) == (row["topic"], row["queue_id"])
            assert str(table[w.R_PHYSICAL, n]) == row["phy_offset"]
            assert str(table[w.R_QUEUE_OFFSET, n]) == row["queue_offset"]
            assert str(table[w.R_SYS_FLAG, n]) == row["sys_flag"]
            assert str(table[w.R_STORE_MS, n]) == row["store_timestamp"]
            assert str(table[w.R_BORN_MS, n]) == row["born_timestamp"]
            assert str(max(int(table[w.R_BODY_BYTES, n]), 0)) == row["body_len"]
            rows.append(row)
    expected = golden.dump(name)
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        assert {column: row[column] for column in wanted} == wanted


@pytest.mark.parametrize("name", golden.STORES)
def test_keys_are_those_of_the_dump(name: str) -> None:
    found = []
    for base, data in segments(name):
        split = Split("", base, len(data), 0, len(data))
        walked = walk_split(Reader(data), split)
        kept = walked.keys[:, walked.keys[2] != 0]  # tag keys are no column of the dump
        found += kept[0].tolist()
    expected = []
    for row in golden.dump(name):
        if int(row["sys_flag"]) & 0xC == 0xC:
            continue
        names = [row["uniq_key"]] if row["uniq_key"] != "null" else []
        names += [key for key in row["keys"].split(" ") if key and row["keys"] != "null"]
        expected += [slow.key_hash(f"{row['topic']}#{key}") for key in names]
    assert found == expected


@pytest.mark.parametrize("name", golden.STORES)
def test_sound_stores_are_records_blanks_and_zeros_only(name: str) -> None:
    for base, data in segments(name):
        split = Split("", base, len(data), 0, len(data))
        spans = walk_split(Reader(data), split).spans
        kinds = spans[w.SPAN_CLASS].tolist()
        assert kinds in ([w.RECORD, w.BLANK], [w.RECORD, w.ZERO])
        assert spans[w.SPAN_START, 0] == 0
        assert spans[w.SPAN_STOP].tolist() == [*spans[w.SPAN_START, 1:].tolist(), len(data)]


def test_slow_walk_agrees_on_a_real_store() -> None:
    for name in ("rich-4.9.8", "rich-5.5.1"):
        positions = []
        for base, data in segments(name):
            oracle = slow.SlowWalk(data.tobytes(), base)
            positions += [(base + head.position, head.tags_code, head.batch_size) for head in oracle.records]
            assert {kind for _, _, kind, _ in oracle.spans} <= {w.RECORD, w.BLANK, w.ZERO}
        columns = ("phy_offset", "tags_code", "batch_size")
        assert positions == [tuple(int(row[c]) for c in columns) for row in golden.dump(name)]


def test_store_files_stay_as_they_were(tmp_path: Path) -> None:
    copied = golden.damaged("base-5.3.3", [["write", "abort", 0, "31"]], tmp_path / "store")
    assert (copied / "abort").read_bytes() == b"1"
    assert not (golden.store("base-5.3.3") / "abort").exists()
