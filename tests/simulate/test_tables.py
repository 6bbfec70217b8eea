"""Tables of ``config/`` and the timers' files: which of them a start reads, passes over or is refused by."""

from __future__ import annotations

import os
from pathlib import Path

import golden_data
import pytest
from golden_data import given_for
from simulated import SOUND_FILES, paths_left, started, store_with

from storeio.predict.start import simulate
from storeio.results import EXIT_FAILED
from storeio.simulate.ends import (
    CONFIG_STAGE,
    CRASHES,
    DELAY_STAGE,
    REFUSES,
    STARTS,
    TIMER_STAGE,
    WHEEL_STAGE,
)
from storeio.simulate.metadata import (
    TIMER_LOG,
    TIMER_LOG_BYTES,
    TIMER_WHEEL,
    WHEEL_BYTES,
)
from storeio.simulate.rules import FASTJSON, FASTJSON2, LINES
from storeio.simulate.tables import (
    CONSUMER_OFFSETS,
    DELAY_OFFSETS,
    FILTERS,
    GROUPS,
    ORDER_INFO,
    QUEUE_MAPPING,
    READS,
    TIMER_METRICS,
    TOPICS,
    UNSURE,
    read_table,
)

pytestmark = pytest.mark.share(2)


@pytest.mark.parametrize("version", LINES.values())
def test_a_timer_wheel_of_the_wrong_length_refuses(version: str, tmp_path: Path) -> None:
    root = store_with(tmp_path, {**SOUND_FILES, TIMER_WHEEL: bytes(100)})
    found, disk = started(root, version, "base-5.5.1")
    assert found.outcome == (STARTS if version == "4.9.8" else REFUSES)
    if found.outcome == REFUSES:
        assert found.stage == WHEEL_STAGE
        assert disk.deleted == []
        assert found.reason == f"timerwheel is 100 bytes long, expected {WHEEL_BYTES}"
    assert started(root, version, "base-5.5.1", timer_wheel=False)[0].outcome == STARTS


SEGMENT = f"{TIMER_LOG}/{0:020d}"
# Files of the timer log with their lengths, and what 5.3.3 and 5.5.1 do, as they were seen to but for the set length.
# None: nobody can say.
TIMER_LOGS: dict[str, tuple[dict[str, int], str | None]] = {
    "whole": ({SEGMENT: TIMER_LOG_BYTES}, STARTS),
    "of a set length": ({SEGMENT: 4096, f"{TIMER_LOG}/{4096:020d}": 4096}, STARTS),
    "alone, of another length": ({SEGMENT: 4096}, None),
    "one cut": ({SEGMENT: TIMER_LOG_BYTES, f"{TIMER_LOG}/{TIMER_LOG_BYTES:020d}": 100}, REFUSES),
    "an empty last one": ({SEGMENT: 0}, STARTS),
    "a stray": ({f"{TIMER_LOG}/x": 1}, REFUSES),
    "a stray as long as a file": ({f"{TIMER_LOG}/x": TIMER_LOG_BYTES}, CRASHES),
    "no directory": ({TIMER_LOG: 1}, STARTS),
}


@pytest.mark.parametrize("what", TIMER_LOGS)
@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_the_timer_log_refuses_after_recovery(version: str, what: str, tmp_path: Path) -> None:
    files, expected = TIMER_LOGS[what]
    root = store_with(tmp_path, {**SOUND_FILES, **dict.fromkeys(files, b"")})
    for path, length in files.items():
        os.truncate(root / path, length)
    given = given_for("base-5.5.1")
    found = simulate(root, broker=version, given=given)
    if version == "4.9.8":
        assert (found.outcome.outcome, found.not_simulated) == (STARTS, ())
        return
    assert found.outcome.outcome == (expected or STARTS)
    assert [text.partition(":")[0] for text in found.not_simulated] == ([] if expected else [TIMER_LOG])
    if expected == REFUSES:
        assert found.outcome.stage == TIMER_STAGE
        assert paths_left(found.outcome) == [DELAY_OFFSETS]
    if expected is None:
        found = simulate(root, broker=version, given={**given, "mappedFileSizeTimerLog": str(TIMER_LOG_BYTES)})
        assert found.outcome.outcome == REFUSES


def test_metrics_of_timers_that_cannot_be_read_refuse_as_the_timer_log_does(tmp_path: Path) -> None:
    root = store_with(tmp_path, {TIMER_METRICS: b"{", f"{TIMER_METRICS}.bak": b"{"})
    found = [simulate(root, broker=version).outcome for version in ("4.9.8", "5.3.3", "5.5.1")]
    assert [(each.outcome, each.stage) for each in found] == [(STARTS, ""), *[(REFUSES, TIMER_STAGE)] * 2]
    (root / TIMER_METRICS).write_bytes(b'{"dataVersion":{"counter":1},"timingCount":{"t":{"count":2,"timeStamp":3}}}')
    assert simulate(root, broker="5.5.1").outcome.outcome == STARTS


def test_a_wheel_s_length() -> None:
    assert WHEEL_BYTES == 38_707_200


def test_a_table_refuses_only_if_its_copy_cannot_be_read_either(tmp_path: Path) -> None:
    cut, whole = b'{"offsetTable":{"t@g":{0:1', b'{"offsetTable":{"t@g":{0:1}}}'
    groups = {GROUPS: b"{}"}
    for copy in (None, b"", whole):
        files = {CONSUMER_OFFSETS: cut, **groups} | ({} if copy is None else {f"{CONSUMER_OFFSETS}.bak": copy})
        root = store_with(tmp_path / str(copy), files)
        assert started(root, "5.5.1", "base-5.5.1")[0].outcome == STARTS
    root = store_with(tmp_path / "both", {CONSUMER_OFFSETS: cut, f"{CONSUMER_OFFSETS}.bak": cut, **groups})
    found, _ = started(root, "5.5.1", "base-5.5.1")
    assert (found.outcome, found.stage) == (REFUSES, CONFIG_STAGE)
    assert "the text ends too early" in found.reason
    assert paths_left(found) == [CONSUMER_OFFSETS, GROUPS]
    zeros = store_with(
        tmp_path / "zeros", {path: bytes(60) for path in (TOPICS, f"{TOPICS}.bak")}
    )  # no power meanwhile
    for version, base in (("5.3.3", "base-5.3.3"), ("5.5.1", "base-5.5.1")):
        found, _ = started(zeros, version, base)
        assert (found.outcome, found.stage) == (REFUSES, CONFIG_STAGE)
    (root / "config" / "rdb").mkdir()
    (root / "config" / "rdb" / "CURRENT").touch()  # the tables are in a database, and the files are not read
    assert started(root, "5.5.1", "base-5.5.1")[0].outcome == STARTS


@pytest.mark.parametrize("table", [None, b""])
def test_a_table_that_says_nothing_gives_way_to_its_copy(table: bytes | None, tmp_path: Path) -> None:
    """Where there is none, or an empty one, ``ConfigManager.load`` of 4.9.8 and 5.5.1 loads the copy."""
    there = {} if table is None else {CONSUMER_OFFSETS: table}
    root = store_with(tmp_path / "bad", {**there, f"{CONSUMER_OFFSETS}.bak": b'{"offsetTable":{'})
    for version in ("4.9.8", "5.5.1"):
        found, _ = started(root, version, f"base-{version}")
        assert (found.outcome, found.stage) == (REFUSES, CONFIG_STAGE)
        assert found.reason.startswith(f"{CONSUMER_OFFSETS}.bak cannot be read: ")
    root = store_with(tmp_path / "good", {**there, f"{CONSUMER_OFFSETS}.bak": b'{"offsetTable":{}}'})
    assert started(root, "5.5.1", "base-5.5.1")[0].outcome == STARTS


def test_delay_levels_refuse_after_recovery(tmp_path: Path) -> None:
    root = store_with(tmp_path, {DELAY_OFFSETS: b"7", f"{DELAY_OFFSETS}.bak": b"{"})
    found, _ = started(root, "4.9.8", "base-5.5.1")
    assert (found.outcome, found.stage, found.leaves) == (REFUSES, DELAY_STAGE, [])


TOPIC = '{"topicConfigTable":{"t":{%s}}}'
ORDER = '{"table":{"t@g":{0:{"popTime":1,%s}}}}'
FILTER = '{"filterDataByTopic":{"t":{"groupFilterData":{"g":{"bloomFilterData":%s,"consumerGroup":"g","topic":"t"}}}}}'
ASKED = [  # fastjson 1.2.69 and 1.2.83, then fastjson2 2.0.63 were asked, with the classes of the tables
    (CONSUMER_OFFSETS, '{"offsetTable":{"t@g":{0:12,1:7}}}', READS, READS),
    (CONSUMER_OFFSETS, '{"offsetTable":{"t@g":{"0":12}}}', READS, READS),
    (CONSUMER_OFFSETS, '{"offsetTable":{"t@g":{0:12', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"offsetTable":{"t@g":{0:12}}}\0\0', READS, READS),
    (CONSUMER_OFFSETS, '{"offsetTable":{"t@\0\0\0\0', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, "\0\0", REFUSES, REFUSES),
    (CONSUMER_OFFSETS, "null", READS, READS),
    (CONSUMER_OFFSETS, "7", REFUSES, REFUSES),
    (CONSUMER_OFFSETS, "[1]", REFUSES, REFUSES),
    (CONSUMER_OFFSETS, "[]", READS, REFUSES),
    (CONSUMER_OFFSETS, " \n", UNSURE, REFUSES),  # read of other tables
    (CONSUMER_OFFSETS, "{a:1}", UNSURE, REFUSES),
    (CONSUMER_OFFSETS, "{1:2}", REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"a":NaN}', UNSURE, REFUSES),
    (CONSUMER_OFFSETS, '{"a":1,}', READS, UNSURE),  # fastjson2 refuses it, but not behind a name that it knows
    (CONSUMER_OFFSETS, '{"a":1,,"b":2}', READS, UNSURE),
    (CONSUMER_OFFSETS, '{,"a":1}', READS, REFUSES),
    (CONSUMER_OFFSETS, '{"a":,1}', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"offsetTable":{"t@g":{0:1,,1:2}}}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{\0"a":1}', REFUSES, READS),
    (CONSUMER_OFFSETS, '{"a":\0 1}', UNSURE, READS),
    (CONSUMER_OFFSETS, '{"a":\x01 1}', UNSURE, REFUSES),
    (CONSUMER_OFFSETS, '{\b"a":\f1}', READS, READS),
    (CONSUMER_OFFSETS, '\ufeff{"a":1}', READS, READS),
    (CONSUMER_OFFSETS, '{"a"\xa0:1}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"offsetTable":{\x113:1}}', UNSURE, REFUSES),
    (CONSUMER_OFFSETS, '{"a":"b\0\n"}', READS, READS),
    (CONSUMER_OFFSETS, "{'a':'b','offsetTable':{'t@g':{'0':1}}}", READS, READS),
    (CONSUMER_OFFSETS, r"{'a':'b\'c'}", UNSURE, UNSURE),
    (CONSUMER_OFFSETS, "/*x*/{//x\n'a':1}", READS, READS),
    (CONSUMER_OFFSETS, "{}//x", READS, UNSURE),
    (CONSUMER_OFFSETS, '{"a":1,/*x*/"b":/*x*/2/*x*/}', READS, UNSURE),
    (CONSUMER_OFFSETS, '{"a"/*x*/:1}', UNSURE, REFUSES),
    (CONSUMER_OFFSETS, '{"a":null/*x*/}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"a":1 #x\n}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"a" 1}', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"a:1,"b":2}', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"a":1 "b":2}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"offsetTable":{0,:1}}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"a":{true:1}}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"offsetTable":[]}', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"offsetTable":"x"}', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"offsetTable":null}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"offsetTable":{"t@g":{"x":1}}}', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"offsetTable":{"t@g":{0:99999999999999999999}}}', REFUSES, REFUSES),
    (CONSUMER_OFFSETS, '{"groupTopicMap":{"g":1}}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"offsettable":[]}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"a":{"@type":"b"}}', UNSURE, UNSURE),
    (CONSUMER_OFFSETS, '{"offsetTable":7,"offsetTable":{}}', UNSURE, UNSURE),
    (TOPICS, TOPIC % '"perm":6,"order":false,"attributes":{"a":"b"},"more":[1]', READS, READS),
    (TOPICS, TOPIC % '"perm":99999999999', REFUSES, REFUSES),
    (TOPICS, TOPIC % '"perm":1.5', UNSURE, UNSURE),
    (TOPICS, TOPIC % '"attributes":1', REFUSES, REFUSES),
    (TOPICS, TOPIC % "1:1", UNSURE, UNSURE),
    (QUEUE_MAPPING, "{}", UNSURE, UNSURE),
    (ORDER_INFO, ORDER % '"i":3,"l":4,"o":[1],"ot":{4294967296:1},"oc":{"2":1},"cm":1,"a":"b"', READS, READS),
    (ORDER_INFO, ORDER % '"ot":{"x":1}', REFUSES, REFUSES),
    (ORDER_INFO, ORDER % '"oc":[]', REFUSES, REFUSES),
    (ORDER_INFO, ORDER % '"oc":{1:99999999999}', REFUSES, REFUSES),
    (ORDER_INFO, ORDER % '"cm":99999999999999999999', UNSURE, UNSURE),  # fastjson reads it, fastjson2 does not
    (ORDER_INFO, ORDER % '"ot":{"":1}', UNSURE, UNSURE),  # fastjson reads it
    (TOPICS, TOPIC % '"attributes":{5:"b"}', UNSURE, UNSURE),  # fastjson refuses it, and fastjson2 1.5 as a name
    (TOPICS, TOPIC % '"topicFilterType":"1"', UNSURE, UNSURE),  # fastjson2 refuses it
    (TOPICS, TOPIC % '"topicFilterType":"MULTI_TAG"', READS, READS),
    (TIMER_METRICS, '{"timingCount":{0:{}}}', UNSURE, UNSURE),  # fastjson refuses it
    (TIMER_METRICS, '{"timingCount":{"0":{"count":1,"timeStamp":2}}}', READS, READS),
    (FILTERS, FILTER % '{"bitPos":[2147483648]}', UNSURE, UNSURE),  # fastjson reads it
    (GROUPS, '{"subscriptionGroupTable":{"g":{"groupRetryPolicy":{"type":"1"}}}}', UNSURE, UNSURE),  # fastjson2: no
    (DELAY_OFFSETS, '{"dataVersion":[]}', UNSURE, UNSURE),  # fastjson reads it
    (DELAY_OFFSETS, '{"offsetTable":{3:1}}', READS, READS),
    (DELAY_OFFSETS, '{"offsetTable":{"t@g":1}}', REFUSES, REFUSES),
]


@pytest.mark.parametrize(("path", "text", "first", "second"), ASKED)
def test_a_table_is_read_as_its_parser_reads_it(path: str, text: str, first: str, second: str) -> None:
    data = text.encode()
    assert (read_table(path, data, [FASTJSON]).verdict, read_table(path, data, [FASTJSON2]).verdict) == (first, second)
    assert read_table(path, data, [FASTJSON, FASTJSON2]).verdict == (first if first == second else UNSURE)


@pytest.mark.parametrize("quote", ["", '"'])
def test_names_of_thousands_of_digits_are_no_numbers(quote: str) -> None:
    data = f'{{"offsetTable":{{{quote}{"9" * 5000}{quote}:1}}}}'.encode()
    assert {read_table(DELAY_OFFSETS, data, [parser]).verdict for parser in (FASTJSON, FASTJSON2)} == {UNSURE}


def test_what_is_not_known_of_a_table_is_said_if_it_decides(tmp_path: Path) -> None:
    odd, cut, whole = b"{a:1}", b'{"offsetTable":{', b"{}"
    for copy, texts in ((odd, 1), (cut, 1), (whole, 0), (None, 0)):
        files = {CONSUMER_OFFSETS: odd} | ({} if copy is None else {f"{CONSUMER_OFFSETS}.bak": copy})
        found, _ = started(store_with(tmp_path / str(copy), files), "5.3.3", "base-5.3.3")
        assert (found.outcome, len(found.doubts)) == (STARTS, texts)
    root = store_with(tmp_path / "both", {CONSUMER_OFFSETS: odd, f"{CONSUMER_OFFSETS}.bak": odd})
    said = simulate(root, broker="5.3.3")
    assert said.not_simulated == (
        f"{CONSUMER_OFFSETS}: whether this broker's parser reads it, and so whether it starts: a name without quotes",
    )
    assert said.exit_code & EXIT_FAILED
    assert simulate(root, broker="5.5.1").outcome.stage == CONFIG_STAGE


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3", "5.5.1"])
def test_a_table_that_is_passed_over_is_told_unless_a_copy_is_read(version: str, tmp_path: Path) -> None:
    """The broker then begins without it, and writes its own over it."""
    root = golden_data.copy_of(f"base-{version}", tmp_path / "store")
    (root / "config").mkdir(exist_ok=True)
    table = root / "config/topics.json"
    table.write_bytes(b'{"topicConfigTable":{"T')
    found = simulate(root, broker=version)
    assert (found.outcome.outcome, found.exit_code) == (STARTS, EXIT_FAILED)
    assert any(text.startswith("config/topics.json: the broker cannot read it") for text in found.not_simulated)
    table.with_name("topics.json.bak").write_bytes(b'{"topicConfigTable":{}}')
    assert simulate(root, broker=version).not_simulated == ()
    table.unlink()
    table.with_name("topics.json.bak").unlink()
    assert simulate(root, broker=version).not_simulated == ()
