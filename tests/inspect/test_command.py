"""``storeio inspect`` as a person and a script see it: output, exit codes, and nothing a terminal could act on."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from storebuilder import StoreBuilder

from storeio import cli, inspect
from storeio.errors import UnreadableError
from storeio.inspect.reader import Reader

ROOT = "rich-5.5.1"
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\n\x7f"


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that runs the command and gives exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = cli.run(["inspect", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def lines(text: str) -> list[dict[str, Any]]:
    """Return the JSON lines of a text that holds nothing else."""
    return [json.loads(line) for line in text.splitlines()]


def assert_harmless(text: str) -> None:
    """Check that a text holds nothing but lines of printable characters."""
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("what", ["--records", "--units", "--index"])
def test_none_asked_for_is_not_none_there(call: Any, what: str) -> None:
    assert call(what, golden.store(ROOT), "--limit", 0) == (0, "", "")


def test_files(call: Any) -> None:
    code, out, err = call(golden.store(ROOT))
    assert (code, err) == (0, "")
    assert out.count("\n") == len(list(inspect.files(golden.store(ROOT))))
    assert "consumequeue/topic_3/1/00000000000000000000" in out
    code, out, _ = call(golden.store(ROOT), "--json")
    assert code == 0
    assert {"checkpoint", "commitlog", "index", "lock"} <= {line["kind"] for line in lines(out)}


def test_records_as_json_equal_the_interface(call: Any) -> None:
    code, out, err = call(golden.store(ROOT), "--records", "--json")
    found = lines(out)
    assert (code, err) == (0, "")
    assert [line["physical_offset"] for line in found] == [int(row["phy_offset"]) for row in golden.dump(ROOT)]
    assert found == [view.as_json() for view in inspect.records(golden.store(ROOT))]
    assert out.isascii()


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--at", "1200"], 1),
        (["--at", "0x4b0", "--around", "2"], 5),
        (["--message-id", "7F00000100002A9F00000000000004AC"], 1),
        (["--message-id", "7F0000010BAD18B4AAC2000000000002"], 1),
        (["--unique-key", "7F0000010BAD18B4AAC2000000000002"], 1),
        (["--key", "k454", "--topic", "topic_3"], 1),
        (["--topic", "topic_3", "--queue", "1", "--queue-offset", "2..4"], 3),
        (["--topic", "topic_3", "--queue", "1", "--queue-offset", "2"], 1),
        (["--tag", "pay", "--limit", "7"], 7),
        (["--records", "--limit", "0"], 0),
        (["--units", "--topic", "topic_3", "--queue", "1", "--queue-offset", "2..4"], 3),
        (["--index", "--key", "k454", "--topic", "topic_3"], 1),
        (["--index", "--at", "1196"], 3),
        (["--hex", "1200"], 20),
        (["--hex", "0", "--file", "checkpoint"], 6),
        (["--since", "2026-11-21T00:04:15.219Z", "--until", "1795219455219"], 1),
    ],
)
def test_every_question_in_both_forms(call: Any, options: list[str], count: int) -> None:
    code, out, err = call(golden.store(ROOT), *options, "--json", "--quiet")
    assert (code, err) == (0, "")
    assert len(lines(out)) == count
    code, out, err = call(golden.store(ROOT), *options)
    assert code == 0
    assert (out != "") == (count > 0)
    assert_harmless(out + err)


def test_one_record_is_shown_in_full_and_the_asked_one_marked(call: Any) -> None:
    _, out, _ = call(golden.store(ROOT), "--at", 1200)
    assert out.startswith("record at physical offset 1196 ")
    assert "property TAGS" in out
    _, out, _ = call(golden.store(ROOT), "--at", 1200, "--around", 1)
    assert [line[:1] for line in out.splitlines()] == [" ", ">", " "]


def test_json_into_a_file_and_before_the_store(call: Any, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    code, out, _ = call(golden.store(ROOT), "--at", 0, "--json", target)
    assert code == 0
    assert out.startswith("record at")
    assert lines(target.read_text())[0]["physical_offset"] == 0
    code, out, _ = call("--json", golden.store(ROOT), "--limit", 2)
    assert (code, len(lines(out))) == (0, 2)
    code, _, err = call(golden.store(ROOT), "--json", golden.store(ROOT) / "new.json")
    assert (code, (golden.store(ROOT) / "new.json").exists()) == (16, False)
    assert "never written" in err
    code, _, _ = call(golden.store(ROOT), "--json", tmp_path / "no" / "such" / "file")
    assert code == 16


@pytest.mark.parametrize(
    "options",
    [
        ["--bogus"],
        ["--at", "x"],
        ["--queue-offset", "3..x"],
        ["--queue-offset", "3"],
        ["--since", "soon"],
        ["--units", "--index"],
        ["--hex", "3", "--at", "4"],
        ["--around", "2"],
        ["--around", "-1", "--at", "0"],
        ["--around", "9223372036854775808", "--at", "0"],
        ["--units", "--limit", "9223372036854775808"],
        ["--file", "checkpoint"],
        ["--units", "--tag", "x"],
        ["--hex", "1", "--file", "nope"],
        ["--hex", "99999999999"],
        ["--set", "noSuchSetting=1"],
        ["--conf", "no/such/file"],
        ["--index", "--topic", "t"],
        ["--body", "loud"],
        ["--at", "\x1b[2J"],
    ],
)
def test_wrong_use(call: Any, options: list[str]) -> None:
    code, out, err = call(golden.store(ROOT), *options)
    assert (code, out) == (16, "")
    assert err
    assert_harmless(err)


def test_what_is_no_store(call: Any, tmp_path: Path) -> None:
    for arguments in ([], [tmp_path / "absent"], [tmp_path]):
        code, out, err = call(*arguments)
        assert (code, out) == (16, "")
        assert "Traceback" not in err


def test_notes_go_to_standard_error_unless_quiet(call: Any) -> None:
    code, out, err = call(golden.store(ROOT), "--at", 10**9)
    assert (code, out) == (0, "")
    assert "no segment holds physical offset 1000000000" in err
    assert call(golden.store(ROOT), "--at", 10**9, "--quiet") == (0, "", "")


def test_settings_change_what_is_derived(call: Any, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s")
    builder.message("t", 0, b"x", delay=2)
    builder.close()
    stored = builder.now_ms
    _, out, _ = call(tmp_path / "s", "--records", "--json")
    plain = lines(out)[0]["tags_code"]
    _, out, _ = call(tmp_path / "s", "--records", "--json", "--set", "messageDelayLevel=1s 1h")
    assert lines(out)[0]["tags_code"] - plain == 3_600_000 - 5000
    assert abs(plain - 5000 - stored) < 100
    conf = tmp_path / "broker.conf"
    conf.write_text("messageDelayLevel = 1s 2h\nmaxHashSlotNum=50\n")
    _, out, _ = call(tmp_path / "s", "--records", "--json", "--conf", conf)
    assert lines(out)[0]["tags_code"] - plain == 7_200_000 - 5000


def test_unreadable_files_end_in_8_and_the_rest_is_shown(call: Any, tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "s")
    (root / "commitlog" / f"{2**40:020d}").symlink_to("nowhere")
    code, out, err = call(root, "--records", "--json")
    assert code == 8
    assert len(lines(out)) == len(golden.dump("base-5.3.3"))
    assert "nowhere" in err or f"{2**40}" in err
    with pytest.raises(UnreadableError):
        inspect.records(root)


def test_a_file_that_shrinks_meanwhile_is_reported(call: Any, tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "s")
    failed: list[UnreadableError] = []
    reader = Reader(root, failed=failed.append)
    second = sorted((root / "commitlog").iterdir())[1]
    os.truncate(second, 100)
    found = list(inspect.records(reader))
    assert 0 < len(found) < len(golden.dump("base-5.3.3"))
    assert second.name in str(failed[0])


def test_nothing_of_the_store_acts_on_the_terminal(call: Any, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s", segment_bytes=1 << 16)
    builder.message("t" + EVIL, 0, EVIL.encode() + b"\nfine\n", tags=EVIL, keys=EVIL, properties={EVIL: EVIL})
    builder.message("plain", 0, b"\xff\xfe" + EVIL.encode())
    builder.segments[0][builder.end - 5] ^= 1
    topic = tmp_path / "s" / "consumequeue" / os.fsdecode(b"\xff\x1b[2J") / "0" / ("0" * 20)
    builder.message("t", 0, EVIL.encode("utf-16"))
    try:
        builder.close()
    except OSError:
        pytest.skip("the file system takes no such names")
    topic.parent.mkdir(parents=True)
    topic.write_bytes(bytes(19) + b"\x05")
    (tmp_path / "s" / "abort").write_text(EVIL)
    place = next(inspect.records(tmp_path / "s")).physical_offset
    for options in (
        [], ["--records"], ["--records", "--body", "text"], ["--records", "--body", "hex"], ["--at", place],
        ["--at", place, "--around", 3], ["--units"], ["--index"], ["--hex", place], ["--topic", EVIL], ["--key", EVIL],
        ["--hex", 0, "--file", os.fsdecode(b"consumequeue/\xff\x1b[2J/0/") + "0" * 20], ["--hex", 0, "--file", EVIL],
    ):  # fmt: skip
        _, out, err = call(tmp_path / "s", *options)
        assert_harmless((out + err).replace("\t", ""))
        code, out, err = call(tmp_path / "s", *options, "--json")
        assert out.isascii()
        assert "\x7f" not in out
        assert_harmless(out + err)
        assert code in (0, 16)
        lines(out)


def test_bodies_keep_to_their_lines(call: Any, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path / "s")
    builder.message("t", 0, b"one\n> 12 forged line\nthree")
    builder.close()
    _, out, _ = call(tmp_path / "s", "--records", "--body", "text")
    assert out.splitlines()[-3:] == ["  | one", "  | > 12 forged line", "  | three"]
    _, out, _ = call(tmp_path / "s", "--records", "--body", "text", "--json")
    assert lines(out)[0]["body"] == "one\n> 12 forged line\nthree"
    _, out, _ = call(tmp_path / "s", "--records", "--body", "hex", "--bytes", 3, "--json")
    assert lines(out)[0]["body_hex"] == b"one".hex()
    assert "cut after 3 bytes" in lines(out)[0]["body_note"]


def test_nothing_in_the_store_changes(call: Any, tmp_path: Path) -> None:
    root = golden.copy_of("ext-5.5.1", tmp_path / "s")

    def state() -> list[tuple[str, int, int, str]]:
        return [
            (str(p), p.stat().st_mtime_ns, p.stat().st_size, hashlib.sha256(p.read_bytes()).hexdigest())
            for p in sorted(root.rglob("*"))
            if p.is_file()
        ]

    before = state()
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    for options in ([], ["--records", "--body", "text"], ["--units"], ["--index"], ["--hex", 0], ["--key", "k1"]):
        assert call(root, *options)[0] == 0
    assert state() == before


@pytest.mark.parametrize("where", ["standard output", "--json /dev/full"])
def test_a_full_disk_is_told_with_what_is_on_it(
    where: str, call: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    words = [golden.store(ROOT), "--records", "--quiet"]
    if where.startswith("--json"):
        code, _, err = call(*words, *where.split())
    else:
        full = open("/dev/full", "w", buffering=1)  # noqa: SIM115  what waits in it is dropped with its number
        monkeypatch.setattr("sys.stdout", full)
        code, _, err = call(*words)
        full.close()
    assert code == 8
    assert err.endswith(f": {where}: could not be written: No space left on device\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("options", [["--units", "--topic", "no"], ["--index", "--key", "no"], ["--tag", "no"]])
def test_that_nothing_is_found_is_said(call: Any, options: list[str]) -> None:
    code, out, err = call(golden.store(ROOT), *options)
    assert (code, out) == (0, "")
    assert err.splitlines()[-1].startswith("storeio: no such ")


def test_offsets_may_be_written_as_names_of_files(call: Any) -> None:
    base = int(golden.options(ROOT)["clFile"])
    assert call(golden.store(ROOT), "--at", f"{base:020d}") == call(golden.store(ROOT), "--at", hex(base))


def test_slots_that_one_index_file_does_not_tell_are_those_of_the_others(call: Any, tmp_path: Path) -> None:
    root = golden.copy_of(ROOT, tmp_path / "store")
    files = sorted((root / "index").iterdir())
    before = call(root, "--index", "--json")[1]
    data = bytearray(files[0].read_bytes())
    data[36:40] = (int.from_bytes(data[36:40], "big") - 1).to_bytes(4, "big")  # its last unit is another then
    files[0].write_bytes(data)
    code, out, _ = call(root, "--index", "--json")
    assert (code, len(lines(out))) == (0, len(lines(before)) - 1)
    for path in files[1:]:
        path.unlink()
    code, out, err = call(root, "--index", "--json", "--quiet")
    assert (code, out) == (8, "")
    assert f"index/{files[0].name}: the number of hash slots cannot be told" in err


def test_a_failure_is_json_too(call: Any, tmp_path: Path) -> None:
    code, out, err = call(tmp_path / "nowhere", "--json", "-")
    (told,) = lines(out)
    assert (code, told["exit_code"], told["store"]) == (16, 16, str(tmp_path / "nowhere"))
    assert told["error"] in err
