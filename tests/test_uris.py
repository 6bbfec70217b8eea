"""Roots as people write them: what is local, what is shown, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storeio.errors import UsageError
from storeio.uris import (
    HIDDEN,
    below,
    beside,
    is_below,
    is_remote,
    name_of,
    named,
    parsed,
    place_of,
    refuse_remote,
    scrubbed,
    shown,
)


@pytest.mark.parametrize(
    "root", ["d", "d/", "./d", "a//b/./c/", "/", "/data/store/", "file:///data/store", "../d", ".", "a/.."]
)
def test_named_as_audits_name_it(root: str) -> None:
    assert named(root) == str(Path(place_of(root)))


@pytest.mark.parametrize(
    ("root", "remote", "place"),
    [
        ("/data/store", False, "/data/store"),
        ("store", False, "store"),
        ("file:///data/a%20b", False, "/data/a b"),
        ("file://localhost/data", False, "/data"),
        ("FILE:///data", False, "/data"),
        ("s3://bucket/a%20b", True, "s3://bucket/a%20b"),
        ("hdfs://name:8020/store", True, "hdfs://name:8020/store"),
        ("a:b", False, "a:b"),
        ("dir/s3://odd", False, "dir/s3://odd"),
    ],
)
def test_places(root: str, remote: bool, place: str) -> None:
    assert (is_remote(root), place_of(root)) == (remote, place)


def test_another_machine_s_file_is_refused() -> None:
    with pytest.raises(UsageError, match="names the machine other"):
        place_of("file://other/data")


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("s3://KEY:SEC%2FRET@bucket/a?region=eu&session_token=TOKEN", "s3://***@bucket/a?region=eu&session_token=***"),
        ("--store s3://KEY:SEC/RET@bucket/a --quiet", "--store s3://***@bucket/a --quiet"),
        ("s3://KEY@bucket", "s3://***@bucket"),
        ("s3://bucket/name@place/x", "s3://bucket/name@place/x"),
        ("hdfs://name:8020/a@b?user=me&new_option=x", "hdfs://name:8020/a@b?user=me&new_option=***"),
        ("/data/store?not=a-uri", "/data/store?not=a-uri"),
    ],
)
def test_secrets_are_hidden(text: str, public: str) -> None:
    assert shown(text) == public
    assert shown(public) == public


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=8, max_size=20)


@given(key=WORDS, secret=WORDS, token=WORDS, path=WORDS)
def test_no_secret_is_ever_shown(key: str, secret: str, token: str, path: str) -> None:
    root = f"s3://{key}1:{secret}2@bucket/{path}?session_token={token}3&region=eu"
    library = f"cannot open {root}: key {key}1 and {secret}2 with {token}3 are not accepted"
    for text in (shown(root), shown(f"failed: '{root}' ({root})"), scrubbed(library, root)):
        for one in (f"{key}1", f"{secret}2", f"{token}3"):
            assert one not in text.replace(path, "")
        assert HIDDEN in text


def test_parts() -> None:
    uri = parsed("S3://K:a%2Fb@bucket//deep/a%20b/?region=x&retries=3")
    assert (uri.scheme, uri.user, uri.password, uri.host, uri.path) == ("s3", "K", "a/b", "bucket", "/deep/a b")
    assert uri.options == {"region": "x", "retries": "3"}
    assert below("s3://b/new/?x=1", "a b/c") == "s3://b/new/a%20b/c?x=1"
    assert beside("s3://b/new/?x=1", ".partial") == "s3://b/new.partial?x=1"
    assert [name_of(root) for root in ("s3://b/a%20b/?x=1/2", "s3://b", "/data/store/")] == ["a b", "", "store"]


@pytest.mark.parametrize("root", ["s3://b/../c", "s3://b/a#b", "s3://b/a?x", "s3://b/a?x=1&x=2", "s3://K:a/b@b/c"])
def test_what_is_no_uri(root: str) -> None:
    with pytest.raises(UsageError):
        parsed(root)


@pytest.mark.parametrize(
    ("one", "other", "inside"),
    [
        ("s3://b/store/new", "s3://k:s@b/store?region=x", True),
        ("s3://b/store", "s3://b/store/", True),
        ("s3://b/store-2", "s3://b/store", False),
        ("s3://c/store/new", "s3://b/store", False),
        ("hdfs://b/store/new", "s3://b/store", False),
        ("s3://b/anything", "s3://b", True),
    ],
)
def test_below(one: str, other: str, inside: bool) -> None:
    assert is_below(one, other) is inside


def test_what_must_be_local() -> None:
    assert refuse_remote("file:///a%20b", "must be local") == "/a b"
    with pytest.raises(UsageError, match=r"s3://\*\*\*@b/x: must be local"):
        refuse_remote("s3://k:s@b/x", "must be local")
