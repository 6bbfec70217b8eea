"""Lists of light queues at whose numbers brokers fail: found, with their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from rebuilds import settings_of
from storebuilder import StoreBuilder

from storeio import audit
from storeio.apply import apply_plan
from storeio.findings import Finding
from storeio.format import properties
from storeio.planning import plan_store

ON = {"enableMultiDispatch": "true"}


def found_in(root: Path, **given: str) -> list[Finding]:
    return [f for f in audit.check(root, given=given).findings if f.code == "LOG_MULTI_DISPATCH"]


def store_with(root: Path, names: str, numbers: str, **more: object) -> Path:
    builder = StoreBuilder(root, batch_topics=frozenset({"b"}))
    builder.message("t", 0, b"one")
    lists = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": numbers}
    builder.message(**{"topic": "t", "queue_id": 0, "body": b"two", "properties": lists, **more})  # type: ignore[arg-type]
    builder.message("t", 0, b"three")
    return builder.close()


@pytest.mark.parametrize(
    ("names", "numbers", "text", "name"),
    [
        ("%LMQ%a", "x", "x", "%LMQ%a"),
        ("x,%LMQ%a", ",0", "", "x"),
        ("%LMQ%a,%LMQ%b", "0, 1", " 1", "%LMQ%b"),
        ("%LMQ%a", "9" * 19, "9" * 19, "%LMQ%a"),
        ("%LMQ%a", "9" * 9000, "9" * 40, "%LMQ%a"),
    ],
)
def test_what_is_no_number_is_found_at_its_place(
    names: str, numbers: str, text: str, name: str, tmp_path: Path
) -> None:
    root = store_with(tmp_path / "store", names, numbers)
    (found,) = found_in(root, **ON)
    data = (root / found.path).read_bytes()
    assert data[found.position : found.position + found.length].decode() == numbers
    assert (found.topic, found.queue_id, found.queue_offset, found.count) == ("t", 0, 1, 1)
    assert found.detail == f"{text!r} is to be the queue offset in {name!r}"
    assert audit.check(root, given=ON).exit_code == 4


@pytest.mark.parametrize(
    ("names", "numbers"),
    [("%LMQ%a", "0"), ("%LMQ%a", "+1"), ("%LMQ%a", "-5"), ("%LMQ%a,%LMQ%b", "x"), ("%LMQ%a,x", "0,"), (" ", "x")],
)
def test_what_brokers_pass_over_is_not(names: str, numbers: str, tmp_path: Path) -> None:
    assert found_in(store_with(tmp_path / "store", names, numbers), **ON) == []


@pytest.mark.parametrize("more", [{"transaction": 4}, {"transaction": 12}, {"topic": "%RETRY%g"}, {"topic": "b"}])
def test_nor_are_records_that_go_into_no_light_queue(more: dict[str, object], tmp_path: Path) -> None:
    assert found_in(store_with(tmp_path / "store", "%LMQ%a", "x", **more), **ON) == []


def test_brokers_without_light_queues_do_not_read_the_list(tmp_path: Path) -> None:
    root = store_with(tmp_path / "store", "%LMQ%a", "x")
    assert found_in(root) == []
    assert found_in(root, enableMultiDispatch="false") == []


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"N\1v\2", b"v"), (b"N\1v", b"v"), (b"N\1a\2N\1b\2", b"b"), (b"MN\1a\2N\1b\2", b"b"), (b"N\1\2", b""),
        (b"", b""), ("\u4e3b\1\u9898\2N\1v\2".encode(), b"v"), (b"N\1a\2N\1\2", b"a"),
    ],
)  # fmt: skip
def test_the_place_of_a_value_is_that_of_the_one_that_is_read(raw: bytes, value: bytes) -> None:
    start, stop = properties.value_place(raw, "N")
    assert raw[start:stop] == value == properties.parse(raw).get("N", "").encode()


@pytest.mark.parametrize(("split_bytes", "apart"), [(None, 1), (None, 3), (1024, 1), (1024, 2)])
def test_units_of_a_light_queue_that_changed_places_are_found(
    split_bytes: int | None, apart: int, tmp_path: Path
) -> None:
    """They stand in the order of the log; nothing else says at which number each belongs."""
    builder = StoreBuilder(tmp_path / "store", multi_dispatch=True, segment_bytes=1024)
    for number in range(12):
        lists = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": str(number)}
        builder.message("t", 0, b"body", properties=lists)
    root, given = builder.close(), settings_of(builder.settings)
    path = root / f"consumequeue/%LMQ%a/0/{0:020d}"
    before = path.read_bytes()
    assert audit.check(root, given=given, split_bytes=split_bytes).exit_code == 0
    for first in range(12 - apart):
        low, high = 20 * first, 20 * (first + apart)
        swapped = bytearray(before)
        swapped[low : low + 20], swapped[high : high + 20] = before[high : high + 20], before[low : low + 20]
        path.write_bytes(swapped)
        found = audit.check(root, given=given, split_bytes=split_bytes)
        assert {(f.code, f.topic) for f in found.findings if f.severity != "info"} == {("CQ_SHIFTED", "%LMQ%a")}
    assert plan_store(root, tmp_path / "plan.json", given=given, jobs=1).cures
    apply_plan(tmp_path / "plan.json", root)
    assert path.read_bytes() == before
