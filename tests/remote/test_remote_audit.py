"""Audits over an object server: those of the local disk, whatever the network does, or an error that says so."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_data as golden
import pytest
from remote.objects import (
    CUT,
    DOWN,
    EMPTY,
    RESET,
    SECRET,
    SHORT,
    SLOW,
    STALL,
    WHOLE,
    Fault,
    Objects,
    Proxy,
    Request,
    no_fault,
)
from sampled import sampled

import storeio
from storeio import audit as audits
from storeio.audit import plan as plans
from storeio.cli import run
from storeio.errors import NotAStoreError, UnreadableError, UsageError
from storeio.predict.into import write_into
from storeio.remote import reading
from storeio.report import audit_object
from storeio.results import Audit
from storeio.scan import kept_open, read_range

pytestmark = pytest.mark.share(2)

SPLIT_BYTES = 16384
CASES = [("rows-5.3.3", 40), ("rows-5.5.1", 17)]
Start = Callable[[Fault], Proxy]


def timeless(found: Audit) -> dict[str, Any]:
    return {name: part for name, part in audit_object(found).items() if name not in ("store", "started_ms", "seconds")}


@pytest.mark.parametrize("name", ["ext-5.5.1", "rich-4.9.8"])
def test_sound_stores_are_as_on_disk(name: str, objects: Objects) -> None:
    objects.put_store(golden.store(name), name)
    remote = storeio.check(objects.uri(name))
    assert timeless(remote) == timeless(storeio.check(golden.store(name)))
    assert remote.exit_code == 0
    assert remote.store.startswith(f"s3://***@{objects.bucket}/{name}?")


@pytest.mark.parametrize(("listed", "number"), CASES)
def test_damaged_stores_are_as_on_disk(listed: str, number: int, objects: Objects, tmp_path: Path) -> None:
    case = golden.cases(listed)[number]
    root = golden.damaged(golden.base_of(listed), case["edits"], tmp_path / "store")
    objects.put_store(root, f"{listed}-{number}")
    local = storeio.check(root, split_bytes=SPLIT_BYTES)
    assert local.findings
    assert timeless(storeio.check(objects.uri(f"{listed}-{number}"), split_bytes=SPLIT_BYTES)) == timeless(local)


@pytest.mark.share(2)
@pytest.mark.parametrize("trouble", sampled((RESET, CUT, SLOW, SHORT, EMPTY, WHOLE, 500, 503), [CUT, SLOW, SHORT, 503]))
def test_trouble_that_passes_changes_nothing(trouble: int | str, rich: Path, objects: Objects, proxied: Start) -> None:
    proxy = proxied(lambda request: trouble if request.number % 5 == 2 else None)
    found = storeio.check(objects.uri("rich", proxy.endpoint), split_bytes=SPLIT_BYTES)
    assert timeless(found) == timeless(storeio.check(rich, split_bytes=SPLIT_BYTES))
    assert len(proxy.requests) > 50


@pytest.mark.parametrize("first", [RESET, CUT, 503])
def test_a_range_that_fails_at_first_is_read_in_the_end(
    first: int | str, rich: Path, objects: Objects, proxied: Start
) -> None:
    seen: list[Request] = []
    path = "commitlog/00000000000000000000"

    def fault(request: Request) -> int | str | None:
        if not request.path.endswith(path) or request.start is None:
            return None
        seen.append(request)
        return first if len(seen) <= 3 else None

    uri = objects.uri("rich", proxied(fault).endpoint)
    data = (rich / path).read_bytes()
    assert read_range(uri, path, 100, len(data)).tobytes() == data[100:]
    assert [(r.start, r.length) for r in seen] == [(0, len(data))] * 4
    seen.clear()
    uri += "&retries=2"
    with pytest.raises(UnreadableError, match=rf"{path}: bytes 0 to {len(data)}: .* \(tried 3 times\)"):
        read_range(uri, path, 100, len(data))


def test_one_segment_that_cannot_be_read(
    rich: Path, objects: Objects, proxied: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted(p.relative_to(rich).as_posix() for p in rich.glob("commitlog/*"))
    lost = paths[1]
    proxy = proxied(lambda request: 500 if request.path == f"rich/{lost}" and request.method == "GET" else None)
    found = storeio.check(objects.uri("rich", proxy.endpoint, retries="1"))
    said = [f for f in found.findings if f.code == "UNREADABLE"]
    assert {f.path for f in said} == {lost}
    assert all("500" in f.detail and f.detail.startswith("bytes 0 to") for f in said)
    assert found.exit_code == 4 | 8
    assert found.verdict == "damaged"

    def failing(root: str, path: str, start: int, stop: int, **rest: Any) -> Any:
        if path == lost:
            raise UnreadableError(f"{path}: bytes")
        return read_range(root, path, start, stop, **rest)

    monkeypatch.setattr(plans, "read_range", failing)
    local = storeio.check(rich)
    apart = ("failed", "findings")
    assert {k: v for k, v in timeless(found).items() if k not in apart} == {
        k: v for k, v in timeless(local).items() if k not in apart
    }
    assert [f for f in found.findings if f.code != "UNREADABLE"] == [
        f for f in local.findings if f.code != "UNREADABLE"
    ]


@pytest.mark.parametrize("pattern", ["consumequeue/topic_0/0/*", "commitlog/*"])
def test_a_start_without_a_file_is_as_if_zeros_stood_there(
    pattern: str, rich: Path, objects: Objects, proxied: Start, tmp_path: Path
) -> None:
    lost = [place.relative_to(rich).as_posix() for place in sorted(rich.glob(pattern))][-1:]
    proxy = proxied(lambda request: 403 if any(request.path == f"rich/{path}" for path in lost) else None)
    uri = objects.uri("rich", proxy.endpoint)
    found = storeio.simulate(uri, broker="5.3.3")
    local = shutil.copytree(rich, tmp_path / "zeros")
    (local / lost[0]).write_bytes(bytes((local / lost[0]).stat().st_size))
    zeros = storeio.simulate(local, broker="5.3.3")
    assert [text.partition(": ")[0] for text in found.unread] == lost
    assert "ACCESS_DENIED" in found.unread[0]
    assert found.exit_code == zeros.exit_code | 8
    one, other = found.outcome, zeros.outcome
    assert (one.outcome, one.reason, one.deleted) == (other.outcome, other.reason, other.deleted)
    assert (one.after_start and one.after_start.queues) == (other.after_start and other.after_start.queues)
    assert found.given_up == zeros.given_up
    with pytest.raises(UnreadableError, match=lost[0]):
        write_into(found, tmp_path / "new")
    lost += [place.relative_to(rich).as_posix() for place in sorted(rich.glob("commitlog/*"))[-3:]]
    with pytest.raises(UnreadableError, match="ACCESS_DENIED"):  # the server itself may be the trouble
        storeio.simulate(uri, broker="5.3.3")


def child(*words: str, pause: str = "0.01") -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, which must end."""
    code = f"from storeio.remote import trouble as t; t.FIRST_PAUSE_SECONDS = {pause}\n"
    code += "from storeio.cli import main; main()"
    place = Path(storeio.__file__).parent.parent
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": str(place)},
    )  # fmt: skip


def test_a_server_that_dies_in_the_middle(rich: Path, objects: Objects, proxied: Start, tmp_path: Path) -> None:
    del rich
    proxy = proxied(no_fault)

    def fault(request: Request) -> str | None:
        return DOWN if request.number > 40 else None  # whatever is asked for from then on

    proxy.fault = fault
    ran = child(
        "check", objects.uri("rich", proxy.endpoint, retries="1", request_timeout="1"), "--json", str(tmp_path / "out")
    )
    assert ran.returncode & 8, ran.stderr
    assert "Traceback" not in ran.stderr
    told = json.loads((tmp_path / "out").read_text())
    assert told["verdict"] != "sound"
    assert {f["code"] for f in told["findings"]} >= {"UNREADABLE"}
    assert told["failed"]
    assert len(proxy.requests) < 400  # it does not go on asking for every file
    assert SECRET not in ran.stdout + ran.stderr + (tmp_path / "out").read_text()


def test_a_server_that_never_answers(rich: Path, objects: Objects, proxied: Start) -> None:
    del rich
    proxy = proxied(lambda _: STALL)
    ran = child("check", objects.uri("rich", proxy.endpoint, retries="0", request_timeout="1"))
    assert ran.returncode == 8
    assert ran.stderr.count("\n") == 1
    assert "imeout" in ran.stderr


def test_what_changes_meanwhile_is_told(objects: Objects, tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "store")
    objects.put_store(root, "changing")
    path = sorted(p.relative_to(root).as_posix() for p in root.glob("commitlog/*"))[0]
    data = (root / path).read_bytes()
    changed: list[int] = []

    def change(progress: audits.Progress) -> None:
        if not changed:
            changed.append(progress.done_bytes)
            objects.put(f"changing/{path}", data + b"x")

    found = storeio.check(objects.uri("changing"), progress=change)
    assert [f.path for f in found.findings if f.code == "UNREADABLE"] == [path]
    assert f"{path}: changed while it was read" in found.failed
    assert found.exit_code & 8


def test_a_file_that_became_shorter_is_told_as_on_disk(objects: Objects) -> None:
    objects.put("shorter/commitlog/0", bytes(3 * reading.SMALL_BYTES))
    uri = objects.uri("shorter")
    for stop in (100, 2 * reading.SMALL_BYTES):
        objects.put("shorter/commitlog/0", bytes(3 * reading.SMALL_BYTES))
        with kept_open():
            assert len(read_range(uri, "commitlog/0", 0, 10)) == 10
            objects.put("shorter/commitlog/0", bytes(5))
        with pytest.raises(UnreadableError, match=f"commitlog/0: became shorter than {stop} bytes"):
            read_range(uri, "commitlog/0", 0, stop)
    objects.client.delete_object(Bucket=objects.bucket, Key="shorter/commitlog/0")
    with pytest.raises(UnreadableError, match="commitlog/0: No such file"):
        read_range(uri, "commitlog/0", 0, 5)


def test_no_request_is_longer_than_a_window_and_large_ranges_go_through_the_disk(
    rich: Path, objects: Objects, proxied: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WINDOW_BYTES", 20_000)
    monkeypatch.setattr(reading, "BLOCK_BYTES", 8192)
    monkeypatch.setattr(reading, "SMALL_BYTES", 2048)
    monkeypatch.setattr(reading, "SPOOLED_BYTES", 30_000)
    proxy = proxied(no_fault)
    uri = objects.uri("rich", proxy.endpoint)
    path = "commitlog/00000000000000000000"
    data = (rich / path).read_bytes()
    assert len(data) > 32_000
    for start, stop in ((0, len(data)), (7, 29_000), (8190, 8200), (len(data) - 1, len(data))):
        found = read_range(uri, path, start, stop)
        assert found.tobytes() == data[start:stop]
        assert not found.flags.writeable
    whole = read_range(uri, path, 0, len(data))
    assert isinstance(whole.base, mmap.mmap) or isinstance(getattr(whole.base, "obj", None), mmap.mmap)
    assert timeless(storeio.check(uri)) == timeless(storeio.check(rich))
    lengths = [r.length for r in proxy.requests if r.method == "GET" and r.path.startswith("rich/")]
    assert lengths
    assert all(n is not None and n <= 20_000 for n in lengths)


def test_small_neighbours_come_with_one_request(rich: Path, objects: Objects, proxied: Start) -> None:
    proxy = proxied(no_fault)
    uri = objects.uri("rich", proxy.endpoint)
    path = "commitlog/00000000000000000000"
    data = (rich / path).read_bytes()
    with kept_open():
        for at in range(0, 2000, 20):
            assert read_range(uri, path, at, at + 20).tobytes() == data[at : at + 20]
    assert len([r for r in proxy.requests if r.method == "GET"]) == 1


@pytest.mark.parametrize(
    ("uri", "code", "says"),
    [
        ("NOBUCKET", 16, "no such directory or bucket"),
        ("s3://BUCKET/nothing-here?OPTIONS", 16, "no such directory or bucket"),
        ("s3://BUCKET/rich?OPTIONS&bogus=1", 16, "no option bogus"),
        ("s3://BUCKET/rich?OPTIONS&retries=many", 16, "retries=many"),
        ("s3://BUCKET/rich?OPTIONS&request_timeout=0", 16, "at least one second"),
        ("s3://BUCKET/rich?OPTIONS&scheme=http", 16, "given twice"),
        ("s3://BUCKET/../rich?OPTIONS", 16, "no names of directories"),
        ("s3:///rich?OPTIONS", 16, "names no bucket"),
        ("s3://KEY:s3cr3t/+of-the-tests@BUCKET/rich?OPTIONS", 16, "given as KEY:SECRET"),
        ("nosuchscheme://host/rich", 16, "nosuchscheme"),
        ("file://elsewhere/rich", 16, "names the machine elsewhere"),
    ],
)
def test_wrong_use(uri: str, code: int, says: str, objects: Objects, capsys: pytest.CaptureFixture[str]) -> None:
    options = "endpoint_override={}:{}&scheme=http&retries=0".format(*objects.target)
    if "retries=" in uri:
        options = options.replace("&retries=0", "")
    filled = uri.replace("BUCKET", objects.bucket).replace("OPTIONS", options)
    if uri == "NOBUCKET":
        filled = objects.uri("rich").replace(f"@{objects.bucket}/", "@no-such-bucket/")
    assert run(["check", filled]) == code
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert "s3cr3t" not in said


def test_access_that_is_denied(
    rich: Path, objects: Objects, proxied: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    del rich
    proxy = proxied(lambda _: 403)
    assert run(["check", objects.uri("rich", proxy.endpoint)]) == 8
    assert "ACCESS_DENIED" in capsys.readouterr().err
    assert len(proxy.requests) == 1  # nobody asks twice


def test_without_pyarrow_the_extra_is_named(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run(["check", objects.uri("rich")]) == 16
    assert "storeio[remote]" in capsys.readouterr().err


def test_a_file_uri_is_the_local_path(tmp_path: Path) -> None:
    root = golden.copy_of("base-5.3.3", tmp_path / "a b%")
    found = storeio.check(root.as_uri())
    assert found.store == str(root)
    assert timeless(found) == timeless(storeio.check(root))


def test_names_that_leave_the_directory_are_told_and_never_used(objects: Objects) -> None:
    objects.put_store(golden.store("base-5.3.3"), "odd")
    objects.put("odd/commitlog/../../evil", b"x")
    with pytest.raises((UnreadableError, UsageError, NotAStoreError)):
        storeio.plan(objects.uri("odd"), "plan.json")
    found = storeio.check(objects.uri("odd"))
    assert found.exit_code & 8
    assert any("evil" in text for text in found.failed)
