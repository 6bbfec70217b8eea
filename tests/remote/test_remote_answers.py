"""Servers that answer with other ranges than they were asked for: never wrong bytes, an error where they go on so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from remote.objects import EMPTY, LONG, SHORT, WHOLE, Fault, Objects, Proxy

import storeio
from storeio.errors import UnreadableError
from storeio.remote import reading
from storeio.scan import read_range

pytestmark = pytest.mark.share(2)

SPLIT_BYTES = 16384
Start = Callable[[Fault], Proxy]


@pytest.mark.parametrize("answer", [SHORT, LONG, EMPTY, WHOLE])
def test_ranges_that_are_not_what_was_asked_for(answer: str, rich: Path, objects: Objects, proxied: Start) -> None:
    uri = objects.uri("rich", proxied(lambda _: answer).endpoint, retries="1")
    path = "commitlog/00000000000000000000"
    data = (rich / path).read_bytes()
    read, told = 0, 0
    for start, stop in ((0, len(data)), (0, 1), (0, 5000), (1, 5000), (9999, 10_000), (5000, len(data))):
        with contextlib.suppress(UnreadableError):
            told += 1
            found = read_range(uri, path, start, stop).tobytes()
            assert found == data[start:stop], (start, stop)
            read, told = read + 1, told - 1
    assert (read, told) == ((6, 0) if answer == WHOLE else (0, 6))  # blocks begin where the object does


def test_whole_objects_instead_of_ranges(rich: Path, objects: Objects, proxied: Start, monkeypatch: Any) -> None:
    monkeypatch.setattr(reading, "BLOCK_BYTES", 4096)
    uri = objects.uri("rich", proxied(lambda _: WHOLE).endpoint, retries="1")
    path = "commitlog/00000000000000000000"
    with pytest.raises(UnreadableError, match=f"{path}: bytes 4096 to 8192: .*tried 2 times"):
        read_range(uri, path, 5000, 6000)


@pytest.mark.share(2)
@pytest.mark.parametrize("answer", [SHORT, EMPTY, WHOLE])
def test_one_segment_of_which_other_ranges_come(
    answer: str, rich: Path, objects: Objects, proxied: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(reading, "SMALL_BYTES", 1024)
    lost = sorted(p.relative_to(rich).as_posix() for p in rich.glob("commitlog/*"))[1]
    proxy = proxied(lambda request: answer if request.path == f"rich/{lost}" else None)
    found = storeio.check(objects.uri("rich", proxy.endpoint, retries="1"), split_bytes=SPLIT_BYTES)
    assert {f.path for f in found.findings if f.code == "UNREADABLE"} == {lost}
    assert found.exit_code & 8
    assert found.bytes_by_kind()["commitlog"].get("garbage", 0) == 0  # nothing is judged of what did not come
