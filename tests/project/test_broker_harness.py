"""What the tests of real brokers do where none can be started, and what they say of a start; without starting one."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from broker import brokers, builds, jvm
from broker.brokers import Delivered, Started
from broker.whole import Record, assert_new_messages, assert_whole, keys_of, messages_of, records_of

RECORDS = [
    Record(topic="t", queue_id=0, queue_offset=7, physical_offset=0, sys_flag=0, keys="a b a", unique_key="U1"),
    Record(topic="t", queue_id=0, queue_offset=0, physical_offset=10, sys_flag=4, keys="b", unique_key="U2"),
    Record(topic="t", queue_id=0, queue_offset=8, physical_offset=20, sys_flag=8, keys=None, unique_key="U2"),
    Record(topic="t", queue_id=0, queue_offset=0, physical_offset=30, sys_flag=12, keys="b", unique_key="U3"),
]
FIRST = Delivered("t", 0, 7, 7, 0, 10, "U1", 5, True, 1)
SECOND = Delivered("t", 0, 8, 8, 20, 10, "U2", 5, True, 1)
WHOLE = Started(
    "5.5.1", "starts", "", (), log_range=(0, 40), queues={("t", 0): (7, 9)}, delivered=(FIRST, SECOND),
    hits={("t", "a"): (0, 0), ("t", "b"): (0, 10), ("t", "U1"): (0,), ("t", "U2"): (10, 20)},
)  # fmt: skip


def fake(folder: Path, name: str, says: str, exit_code: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{says}\nEND\nexit {exit_code}\n")
    program.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder on PATH, empty."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("STOREIO_BROKER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "bin"


def test_what_is_missing_is_named_one_by_one(machine: Path) -> None:
    assert builds.missing() == "java was not found: no broker can be started"
    fake(machine, "java", 'openjdk version "11.0.22"', 0)
    assert builds.missing() == f"java 17 or newer is needed to start brokers (found: 11 at {machine / 'java'})"
    fake(machine, "java", 'openjdk version "17.0.15"', 0)
    assert builds.missing() == "mvn was not found: brokers' artifacts come through it"
    fake(machine, "mvn", "", 0)
    assert builds.missing() == f"javac was not found beside {machine / 'java'}: a JDK is needed, not only a JRE"
    fake(machine, "javac", "", 0)
    assert builds.missing() is None


def ready(machine: Path, maven_says: str) -> None:
    fake(machine, "java", 'openjdk version "17.0.15"', 0)
    fake(machine, "javac", "", 0)
    fake(machine, "mvn", maven_says, 1)


def test_artifacts_that_cannot_be_had_are_not_asked_for_again(machine: Path) -> None:
    ready(machine, "[ERROR] Could not resolve dependencies")
    problem = "mvn could not get the artifacts of broker 9.9.9: Could not resolve dependencies"
    with pytest.raises(builds.UnavailableError, match=f"^{re.escape(problem)}$"):
        builds.classpath("9.9.9")
    (machine / "mvn").unlink()
    fake(machine, "mvn", "must not run", 1)
    with pytest.raises(builds.UnavailableError, match=f"^{re.escape(problem)} .not tried again for 300 s unless "):
        builds.classpath("9.9.9")


def test_program_that_does_not_compile_is_no_reason_to_skip(machine: Path) -> None:
    ready(machine, "[ERROR] COMPILATION ERROR : cannot find symbol")
    with pytest.raises(RuntimeError, match=r"does not compile against 9\.9\.8"):
        builds.classpath("9.9.8")


def test_classes_are_archived_once_and_again_where_a_jar_is_another(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = [machine.parent / name for name in ("start.jar", "store.jar")]
    for jar in jars:
        jar.touch()
    monkeypatch.setattr(jvm, "classpath", lambda version: ":".join(map(str, jars)))
    count = machine.parent / "count"
    script = f'for w; do case $w in -XX:ArchiveClassesAtExit=*) echo >"${{w#*=}}"; echo >>{count};; esac; done'
    fake(machine, "java", f"END\n{script}\n/bin/cat <<'END'", 0)

    def archive() -> Path:
        jvm.quick.cache_clear()
        *others, last = jvm.quick("9.9.7")
        assert tuple(others) == jvm.QUICK
        return Path(last.removeprefix("-XX:SharedArchiveFile="))

    first = archive()
    assert (archive(), len(count.read_text())) == (first, 1)
    jars[1].write_text("another")
    assert archive() != first
    assert [path.name for path in machine.parent.glob("*.jsa")] == [archive().name]
    fake(machine, "java", "another, which archives nothing", 0)
    jvm.quick.cache_clear()
    assert jvm.quick("9.9.7") == jvm.QUICK
    jvm.quick.cache_clear()


@pytest.mark.parametrize("text", ["", "a b", "\t", "\\t", "\\\\\n\r\\", "été"])
def test_cells_survive_a_file(text: str, tmp_path: Path) -> None:
    path = brokers._write(tmp_path / "rows", [(text, 1), ("b", text)])
    assert len(path.read_text().splitlines()) == 2
    assert brokers._rows(path) == [[text, "1"], ["b", text]]


def test_messages_and_keys_follow_the_rules_of_dispatch() -> None:
    assert [(m["unit_offset"], m["record"]["physical_offset"]) for m in messages_of(RECORDS)] == [(7, 0), (8, 20)]
    assert keys_of(RECORDS) == WHOLE.hits


def test_light_queues_go_on_behind_their_last_unit() -> None:
    row = {
        "topic": "t", "queue_id": "2", "phy_offset": "0", "size": "1", "body_crc": "0", "body_len": "0",
        "keys": "null", "uniq_key": "null", "batch_size": "1", "queue_offset": "0",
    }  # fmt: skip
    rows = [
        row | {"sys_flag": "0", "properties": "{INNER_MULTI_DISPATCH=%LMQ%a,b, INNER_MULTI_QUEUE_OFFSET=3,0, TAGS=x}"},
        row | {"sys_flag": "12", "properties": "{INNER_MULTI_DISPATCH=%LMQ%a, INNER_MULTI_QUEUE_OFFSET=4}"},
        row | {"sys_flag": "0", "properties": "{INNER_MULTI_DISPATCH=%LMQ%a, INNER_MULTI_QUEUE_OFFSET=5}"},
    ]
    messages = messages_of(records_of(rows, {"set.enableMultiDispatch": "true"}))
    light = [(m["topic"], m["queue_id"], m["unit_offset"]) for m in messages if m["topic"] != "t"]
    assert light == [("%LMQ%a", 0, 3), ("b", 2, 0), ("%LMQ%a", 0, 4)]
    assert len(messages_of(records_of(rows, {}))) == 2
    assert keys_of(records_of(rows, {}), tags=True) == {("t", "T#x"): (0,)}


def test_whole_start_has_no_differences() -> None:
    assert_whole(WHOLE, messages_of(RECORDS), keys_of(RECORDS), log_end=40)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"outcome": "refuses", "reason": "why"}, r"broker 5\.5\.1 refuses: why"),
        ({"log_range": (0, 30)}, "the log ends at 30, not at 40"),
        ({"delivered": (FIRST,)}, r"not delivered .*: 1\n  \('t', 0, 8, 20\)"),
        ({"delivered": (FIRST, SECOND, SECOND)}, r"delivered, not expected: 1\n  \('t', 0, 8, 20\)"),
        ({"delivered": (FIRST, dataclasses.replace(SECOND, unit_offset=9))}, r"\('t', 0, 9, 20\)"),
        ({"delivered": (FIRST, dataclasses.replace(SECOND, queue_offset=9))}, "queue offset 9, not 8"),
        ({"delivered": (FIRST, dataclasses.replace(SECOND, body_ok=False))}, "body as its CRC says False, not True"),
        ({"hits": {**WHOLE.hits, ("t", "b"): (0,)}}, r"t#b: found \[0\], not \[0, 10\]"),
        ({"hits": {}}, "keys that lead elsewhere: 4"),
    ],
)
def test_each_difference_is_told(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        assert_whole(dataclasses.replace(WHOLE, **change), messages_of(RECORDS), keys_of(RECORDS), log_end=40)


def test_new_messages_must_be_there() -> None:
    with pytest.raises(AssertionError):
        assert_new_messages(WHOLE, [("t", 0)])
