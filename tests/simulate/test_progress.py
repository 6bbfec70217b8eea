"""Consumer progress as brokers write it, whole and cut, and the messages that go before a group has had them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storeio.format.fastjson import _Reader, decode
from storeio.format.plainjson import BareNumber
from storeio.paths import StoreFile
from storeio.simulate.disk import Disk
from storeio.simulate.progress import (
    DELAY_SERVICE,
    NOBODY,
    Progress,
    Unread,
    consumer_progress,
    delay_progress,
    progress_of,
    unread,
)
from storeio.simulate.topics import declared_topics

# As fastjson 1.x prints it, tabs and all.
WRITTEN = b"""{
\t"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1795737600000},
\t"groupTopicMap":{},
\t"offsetTable":{
\t\t"topic_0@readers":{0:12,1:7
\t\t},
\t\t"topic_0@others":{1:30},
\t\t"%RETRY%readers@readers":{0:1}
\t}
}"""
OFFSETS = {
    ("topic_0", 0): {"readers": 12},
    ("topic_0", 1): {"readers": 7, "others": 30},
    ("%RETRY%readers", 0): {"readers": 1},
}


def test_offsets_by_topic_queue_and_group() -> None:
    assert consumer_progress(WRITTEN) == Progress(OFFSETS)
    assert consumer_progress(WRITTEN.replace(b"{0:12,1:7", b'{"0":12,"1":"7"')) == Progress(OFFSETS)


def test_an_offset_of_a_light_queue_stands_alone() -> None:
    found = consumer_progress(b'{"offsetTable":{"%LMQ%a@g":5}}')
    assert found.offsets == {("%LMQ%a", 0): {"g": 5}}


def test_names_that_the_broker_passes_over_are_passed_over() -> None:
    found = consumer_progress(b'{"offsetTable":{"a":{0:1},"a@b@c":{0:1},"@b":{0:1},"a@b":{x:1,0:null,2:true}}}')
    assert found == Progress()


def test_of_some_topics_only() -> None:
    for text in (WRITTEN, WRITTEN[:-2]):
        found = consumer_progress(text, topics={"%RETRY%readers", "none"}).offsets
        assert found == {("%RETRY%readers", 0): {"readers": 1}}


def test_delay_levels_are_queues_of_the_schedule_topic() -> None:
    found = delay_progress(b'{"offsetTable":{1:4,18:9}}')
    assert found.offsets == {
        ("SCHEDULE_TOPIC_XXXX", 0): {DELAY_SERVICE: 4},
        ("SCHEDULE_TOPIC_XXXX", 17): {DELAY_SERVICE: 9},
    }


def test_a_cut_file_tells_what_stands_before_the_cut_and_no_wrong_number() -> None:
    for stop in range(1, len(WRITTEN)):
        found = consumer_progress(WRITTEN[:stop])
        assert found.problems[0].startswith("config/consumerOffset.json: the text ends too early, at character ")
        for key, groups in found.offsets.items():
            assert groups.items() <= OFFSETS[key].items()
    assert found.offsets == OFFSETS  # only the last brace is missing


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{0:1,}", {"0": 1}),
        ("{,,a:'b' , }", {"a": "b"}),
        ("/* c */{'a':-1.5e2}// end", {"a": -150.0}),
        ('{"a":[1,[],{},null,true]}', {"a": [1, [], {}, None, True]}),
        (r'{"a":"\u00e9\x41\n\/\ud83d\ude00"}', {"a": "éA\n/\N{GRINNING FACE}"}),
        (" \n", None),
        ("", None),
        ("\ufeff{}", {}),
        ("{1:2L}", {"1": 2}),
    ],
)
def test_what_fastjson_reads_is_read(text: str, value: Any) -> None:
    assert decode(text.encode()).value == value
    assert decode(text.encode()).problem == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{} x", "something follows the end, at character 3, line 1"),
        ('{"a" 1}', "no colon behind the name 'a', at character 5, line 1"),
        ("{\n0:}", "no value, at character 4, line 2"),
        ("{0:1 1:2}", "neither a comma nor }, at character 5, line 1"),
        ('{"a":"b}', "the text ends too early, at character 8, line 1"),
        ("{#}", "no name, at character 1, line 1"),
        ("\0\0\0", "the text ends too early, at character 3, line 1"),  # brokers of all lines refuse these two
        ("//x", "the text ends too early, at character 3, line 1"),
        ("[" * 1000, "nested too deeply, at character 201, line 1"),
        (f"{{0:{'9' * 500}}}", "no number, at character 3, line 1"),
    ],
)
def test_faults_are_told_with_their_place(text: str, problem: str) -> None:
    assert decode(text.encode()).problem == problem


def test_bytes_that_are_no_utf_8_stay_apart() -> None:
    assert decode(b'{"a\xe9":1,"a\xe8":2}').value == {"aé": 1, "aè": 2}


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.booleans())
def test_all_json_is_read(value: dict[str, Any], ascii_only: bool) -> None:
    found = decode(json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))
    assert found.problem == ""
    assert found.value == value


TABLES = [
    WRITTEN.decode(),
    '{"table":{"t@g":{0:{"popTime":1,"o":[1],"ot":{1:2,"3":4},"a":"b"}}}}',
    r'{"t":{"a":{"b":{},"c":[1,-2.5e3,[]],"d":"\n\u00e9","e":null,"f":false},"g":[{"h":1}],"i":{"0":1,2:3}},"j":[[1],{}]}',
    f'{{"t":{{"x":{{"a":"{"x" * 3000}","b":[1]}},"y":["{"y" * 5000}"],"z":{{}}}}}}',  # longer than a window
    f'{{"t":{{"a":[{"[" * 120}{"]" * 120}],"b":{{"c":{"9" * 401}}}}}}}',
]
WORDS = st.sampled_from([
    *"{}[],:'\"-", "//x\n", "/*c*/", "\0", "\x01", "\x1a", "\f", " ", "\n", "007", "1.", "1e5", "2L", "NaN", "tru",
    "null", '"a"', "0:1", "0:1,0:2,", '"a":{},', '"a":1,"a":2,', '"@type"', "\\", r"\u12", r"\x41", r"\ud83d\ude00",
    r"\ud83d", "9" * 19,
])  # fmt: skip


@given(st.sampled_from(TABLES), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), WORDS), max_size=3))
def test_what_is_read_at_once_is_as_if_it_were_read_word_by_word(text: str, edits: list[tuple[int, int, str]]) -> None:
    for at, gone, word in edits:
        at %= len(text) + 1
        text = text[:at] + word + text[at + gone :]
    for data in (text.encode(), text[: len(text) // 2].encode()):
        quick, slow = decode(data), decode(data, quick=False)
        assert quick == slow
        assert repr(quick.value) == repr(slow.value)  # the order, too, and which numbers are floats
        assert _bare(quick.value) == _bare(slow.value)


def _bare(value: Any) -> list[str]:
    """Return the names that were numbers without quotes."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    names = [key for key in value if isinstance(key, BareNumber)] if isinstance(value, dict) else []
    return names + [name for each in inner for name in _bare(each)]


@pytest.mark.parametrize("value", ["{0:12,1:7\n\t\t}", '{"perm":6,"attributes":{"a":"b"}}', "5"])
@pytest.mark.parametrize("end", ["}}", ',"cut":{"a'])
def test_long_tables_are_not_read_word_by_word(value: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"table":{' + ",\n".join(f'"name-{number}":{value}' for number in range(5000)) + end
    asked, read = [0], _Reader._value

    def counted(*args: Any) -> None:
        asked[0] += 1
        read(*args)

    monkeypatch.setattr(_Reader, "_value", counted)
    found = decode(text.encode(), lambda table, name, _: (table, name))
    assert list(found.value["table"].values())[:5000] == [
        5 if value == "5" else ("table", f"name-{number}") for number in range(5000)
    ]
    assert asked[0] < 20


@given(st.binary(max_size=60))
def test_any_bytes_give_an_answer(data: bytes) -> None:
    assert isinstance(decode(data).problem, str)


def disk_with(files: dict[str, bytes]) -> Disk:
    """Return a disk that holds these files."""
    listed = [StoreFile(path, "config", len(data)) for path, data in files.items()]
    return Disk(listed, lambda path, start, stop: np.frombuffer(files[path], np.uint8)[start:stop])


def test_progress_comes_from_the_copy_where_the_file_is_broken() -> None:
    path = "config/consumerOffset.json"
    assert progress_of(disk_with({})) == Progress()
    assert progress_of(disk_with({path: WRITTEN, f"{path}.bak": b"{"})) == Progress(OFFSETS)
    assert progress_of(disk_with({path: b"", f"{path}.bak": WRITTEN})) == Progress(OFFSETS)
    found = progress_of(disk_with({path: WRITTEN[:40], f"{path}.bak": WRITTEN}))
    assert found.offsets == OFFSETS
    assert len(found.problems) == 1
    both = progress_of(
        disk_with({path: b'{"offsetTable":{"t@g":{0:9,', f"{path}.bak": b'{"offsetTable":{"t@g":{0:8,1:4,'})
    )
    assert both.offsets == {("t", 0): {"g": 9}, ("t", 1): {"g": 4}}
    assert [problem.split(":")[0] for problem in both.problems] == [path, f"{path}.bak"]


def test_topics_have_batch_queues_where_an_attribute_says_so() -> None:
    batch = '{"attributes":{"queue.type":"BatchCQ"}}'
    text = f'{{"topicConfigTable":{{"a":{batch},"b":{{"attributes":{{}}}},"c":true,"d":"BatchCQ","e":[{batch}]}}}}'
    table = declared_topics(
        disk_with({"config/topics.json": text[:-1].encode(), "config/topics.json.bak": text.encode()})
    )
    assert table == {"a": True, **dict.fromkeys("bcde", False)}


def test_unread_messages_by_group_and_by_nobody() -> None:
    progress = Progress({("t", 0): {"slow": 3, "fast": 8}, ("u", 1): {"done": 50}})
    before = {"t/0": (0, 20), "u/1": (10, 60), "v/0": (5, 9), "w/0": (0, 4)}
    after = {"t/0": (10, 20), "u/1": (40, 60), "v/0": (9, 9), "w/0": (0, 4)}
    assert unread(before, after, progress) == [
        Unread(NOBODY, "t", 0, 8, 10),
        Unread("fast", "t", 0, 8, 10),
        Unread("slow", "t", 0, 3, 10),
        Unread(NOBODY, "v", 0, 5, 9),
    ]
    assert unread(before, after, progress)[2].messages == 7
