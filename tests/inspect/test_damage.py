"""Damaged logs: what is torn or stale shows with its reason, what is intact shows as before."""

from __future__ import annotations

from pathlib import Path

import damage
import golden_data as golden
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storebuilder import StoreBuilder, forged, inner_body

import storeio
from storeio import inspect
from storeio.inspect import logwalk
from storeio.inspect.reader import Reader
from storeio.splits import Split
from storeio.walk import walk_split

SEGMENT = "commitlog/" + "0" * 20


def small_store(root: Path) -> StoreBuilder:
    """Return a store of a few messages in one queue, written to ``root``."""
    builder = StoreBuilder(root, segment_bytes=8192)
    for number in range(6):
        builder.message("topic", 1, b"body %d" % number, tags="TagA", keys=f"key{number}", unique_key=f"U{number}")
    builder.close()
    return builder


def change(root: Path, kind: str, field: str, value: int) -> tuple[int, bytes]:
    """Give a field of the third record another value; return where it lies and the new file."""
    path = root / SEGMENT
    data = bytearray(path.read_bytes())
    at = [view.physical_offset for view in inspect.records(root)][2]
    getattr(damage, kind)(data, at, field, value)
    path.write_bytes(data)
    return at, bytes(data)


@pytest.mark.parametrize(
    ("field", "difference", "why"),
    [
        ("size", 1, "size is not the sum"),
        ("size", -(2**30), "size impossible"),
        ("magic", 1, "no magic code"),
        ("body_crc", 1, "body CRC differs"),
        ("body_length", 1, "does not fit into"),
        ("body_length", 2**29, "body length leads out"),
    ],
)
def test_a_damaged_record_shows_its_reason_and_what_can_be_read(
    tmp_path: Path, field: str, difference: int, why: str
) -> None:
    small_store(tmp_path / "s")
    before = list(inspect.records(tmp_path / "s"))
    at, _ = change(tmp_path / "s", "add_to_field", field, difference)
    after = list(inspect.records(tmp_path / "s"))
    assert [view.physical_offset for view in after] == [view.physical_offset for view in before]
    assert after[:2] + after[3:] == before[:2] + before[3:]
    bad = after[2]
    assert not bad.valid
    assert bad.why is not None
    assert why in bad.why
    assert (bad.queue_id, bad.queue_offset, bad.born_host) == (1, 2, "127.0.0.1:10911")
    line = bad.as_json()
    assert (line["valid"], line["extent"], line["physical_offset"]) == (False, before[2].size, at)
    for place in (at, at + 5, at + line["extent"] - 1):
        assert list(inspect.records(tmp_path / "s", at=place)) == [bad]
    assert list(inspect.records(tmp_path / "s", at=at, around=1)) == after[1:4]


def test_what_a_broker_accepts_is_valid_but_odd(tmp_path: Path) -> None:
    small_store(tmp_path / "s")
    at, _ = change(tmp_path / "s", "set_field", "physical_offset", 12345)
    view = list(inspect.records(tmp_path / "s"))[2]
    assert (view.valid, view.physical_offset) == (True, at)
    assert view.odd == ("its physical offset field says 12345",)
    assert view.as_json()["odd"] == ["its physical offset field says 12345"]


def test_an_inner_batch_that_contradicts_itself_is_odd(tmp_path: Path) -> None:
    """As the audit says: its number stands in it twice, and so does how many messages it holds."""
    builder = StoreBuilder(tmp_path / "s", segment_bytes=8192)
    for number, count in ((None, 2), (7, 2), (None, 3)):
        builder.message("B", body=inner_body([b"one", b"two"]), inner=count, queue_offset=number)
    path = builder.close() / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"INNER_BASE\x017", b"INNER_BASE\x012"))
    shown = [view.odd for view in inspect.records(tmp_path / "s")]
    assert [len(odd) for odd in shown] == [0, 1, 1]
    assert (shown[1][0].split()[0], shown[2][0].split()[0]) == ("INNER_BASE", "INNER_NUM")
    told = [f for f in storeio.check(tmp_path / "s").findings if f.code == "LOG_FIELD"]
    assert [f.detail.split()[0] for f in told] == ["7,", "INNER_NUM"]


def test_stale_records_come_on_request(tmp_path: Path) -> None:
    builder = small_store(tmp_path / "s")
    older = StoreBuilder(segment_bytes=8192, start_ms=10**12)
    while len(older.segments) < 2:
        older.message("old", 0, bytes(60))
    path = tmp_path / "s" / SEGMENT
    start = next(head.position for head in older.records() if head.position > builder.end)
    data = bytearray(path.read_bytes())
    damage.overwrite(data, start, bytes(older.segments[0][start:]))
    path.write_bytes(data)
    assert len(list(inspect.records(tmp_path / "s"))) == 6
    shown = list(inspect.records(tmp_path / "s", stale=True))
    stale = [view for view in shown if not view.valid]
    assert len(shown) == 6 + len(stale)
    assert stale[0].physical_offset == start
    assert all(view.topic == "old" and "left behind a cut" in (view.why or "") for view in stale)
    assert list(inspect.records(tmp_path / "s", at=start + 20)) == stale[:1]
    assert list(inspect.records(tmp_path / "s", topic="old", stale=True)) == stale


def test_forged_records_in_a_body_are_no_records(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s", segment_bytes=1 << 16)
    builder.message("first", 0, b"x")
    start = builder.end
    inner = b""
    while len(inner) < 20_000:
        inner += forged(start + 88 + len(inner))
    builder.message("outer", 0, inner)
    builder.message("last", 0, b"y")
    builder.close()
    reader = Reader(tmp_path / "s")
    for place in (start + 88, start + 88 + 200, start + 10_000):
        found = list(inspect.records(reader, at=place))
        assert [view.topic for view in found] == ["outer"]
    assert [view.topic for view in inspect.records(reader, at=start, around=5)] == ["first", "outer", "last"]
    # By itself a forged record looks intact, so a start inside of the body must not count.
    segment = reader.segments()[0]
    state = logwalk.state_before(reader, segment, builder.end - 100, back=30_000)
    assert state.position in (0, start)


@settings(max_examples=150, derandomize=True)
@given(damage.damaged_segments(), st.data())
def test_a_start_in_the_middle_agrees_on_damaged_logs(segment: tuple[int, bytes], data: st.DataObject) -> None:
    import tempfile

    base, raw = segment
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "commitlog" / f"{base:020d}"
        path.parent.mkdir()
        path.write_bytes(raw)
        reader = Reader(root)
        found = reader.segments()[0]
        whole = walk_split(reader.of(found.path), Split(found.path, base, len(raw), 0, len(raw)))
        at = data.draw(st.integers(0, max(len(raw) - 1, 0)))
        state = logwalk.state_before(reader, found, at, back=data.draw(st.sampled_from([64, 300, 1000, 4096])))
        # What lies in a guess's chain may be stale for who knows what is in front of it, but starts agree.
        starts = {*whole.records[0].tolist()}
        for k, kind in enumerate(whole.spans[2].tolist()):
            if kind == 3:
                starts |= {row[0] for row in logwalk._stale_entries(whole, k).T.tolist()}
        assert state.position in starts | {0}
        shown = list(inspect.records(reader, at=base + at, around=2))
        assert len(shown) <= 5
        every = {view.position for view in inspect.records(reader, stale=True)}
        assert {view.position for view in shown} <= every


@pytest.mark.parametrize("name", ["rows-4.9.8", "rows-5.5.1", "fuzz-5.3.3"])
def test_damages_that_brokers_met_are_shown(name: str, tmp_path: Path) -> None:
    base = golden.base_of(name)
    sound = {view.physical_offset: view for view in inspect.records(golden.store(base))}
    for number, case in enumerate(golden.cases(name)[::12]):
        if not any(edit[1].startswith("commitlog") and edit[0] in ("write", "zero") for edit in case["edits"]):
            continue
        root = golden.damaged(base, case["edits"], tmp_path / str(number))
        if not (root / "commitlog").exists():
            continue
        reader = Reader(root, failed=lambda _: None)
        found = list(inspect.records(reader))
        assert [view.physical_offset for view in found] == sorted(view.physical_offset for view in found)
        same = sum(view == sound.get(view.physical_offset) for view in found)
        assert same >= len(found) // 2 or len(found) < 20
        list(inspect.files(reader))
        units, entries = (list(shown(reader, limit=50)) for shown in (inspect.units, inspect.index_entries))
        assert max(len(units), len(entries)) <= 50
        assert len(units) == 50 or not (root / "consumequeue").exists()


@pytest.mark.parametrize(
    "said",
    [b"KEYS\1\2u\1v\2", b"u\1v\2TAGS\1", b"KEYS\1\2ey\2", b"TAGS\1\2\2u\1v\2", b"\1v\2", b"no separator", b"u\1\xff\2"],
)
def test_properties_are_odd_where_the_audit_says_so(said: bytes, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s")
    builder.message("t", 0, b"body", properties=b"KEYS\1k\2u\1v\2")
    builder.message("t", 0, b"body", properties=said)
    builder.close()
    found = [f.detail for f in storeio.check(tmp_path / "s").findings if f.code == "LOG_PROPERTIES"]
    (_, view) = inspect.records(tmp_path / "s")
    assert [text.removeprefix("properties: ") for text in view.odd] == found
