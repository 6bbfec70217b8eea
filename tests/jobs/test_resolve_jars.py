"""The Delta jars: present after set-up, filtered, resolved by whichever way works, never half."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import resolve_jars
from jobs.resolve_jars import Jars, MissingJarsError, artifact, delta_jars, jars_dir, not_bundled, resolve

GOOD = ("delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar")


@pytest.fixture
def empty_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the jar folder of an environment that was never set up."""
    monkeypatch.delenv("STOREIO_JARS", raising=False)
    monkeypatch.setattr(resolve_jars.sys, "prefix", str(tmp_path))
    return jars_dir()


def way_that_gives(*names: str) -> resolve_jars.Way:
    """Return a way of resolving that writes ``names``."""

    def way(scratch: Path) -> Jars:
        for name in names:
            (scratch / name).write_bytes(b"jar")
        return {name: scratch / name for name in names}

    return way


def way_that_fails(scratch: Path) -> Jars:
    raise MissingJarsError("host not found")


def test_jars_are_there_after_set_up() -> None:
    names = [artifact(path.name) for path in delta_jars()]
    assert "delta-storage" in names
    assert any(name.startswith("delta-spark_") for name in names)


def test_no_jar_is_a_second_version_of_one_that_spark_brings() -> None:
    assert not {"jackson-databind", "log4j-core", "slf4j-api", "hadoop-client-api"} & {
        artifact(path.name) for path in delta_jars()
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jackson-core-2.13.5.jar", "jackson-core"),
        ("delta-spark_4.2_2.13-4.4.0.jar", "delta-spark_4.2_2.13"),
        ("zstd-jni-1.5.7-3.jar", "zstd-jni"),
        ("jackson-annotations-2.21.jar", "jackson-annotations"),
        ("guava-33.4.0-jre.jar", "guava"),
        ("log4j-slf4j2-impl-2.25.3.jar", "log4j-slf4j2-impl"),
    ],
)
def test_artifact_is_the_name_without_version(name: str, expected: str) -> None:
    assert artifact(name) == expected


def test_bundled_jars_are_left_out() -> None:
    jars = {"a-1.0.jar": Path("a"), "b-2.0.jar": Path("b")}
    assert list(not_bundled(jars, {"b"})) == ["a-1.0.jar"]


def test_missing_jars_say_what_to_run(empty_environment: Path) -> None:
    with pytest.raises(MissingJarsError, match="run make setup") as caught:
        delta_jars()
    assert str(empty_environment) in str(caught.value)


def test_second_way_is_taken_when_the_first_fails(empty_environment: Path) -> None:
    resolve((("first", way_that_fails), ("second", way_that_gives(*GOOD))))
    assert [path.name for path in delta_jars()] == sorted(GOOD)
    assert [path.name for path in empty_environment.parent.iterdir()] == [empty_environment.name]


def test_jars_are_resolved_once(empty_environment: Path) -> None:
    resolve((("first", way_that_gives(*GOOD)),))
    assert resolve((("fails", way_that_fails),)) == empty_environment


def test_half_of_the_jars_is_none(empty_environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingJarsError, match="neither through first nor second"):
        resolve((("first", way_that_fails), ("second", way_that_gives(GOOD[0]))))
    assert not empty_environment.exists()
    said = capsys.readouterr().err
    assert "first: host not found" in said
    assert "second: resolved without error, but to" in said


def test_missing_program_is_a_way_that_fails(
    empty_environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(empty_environment))
    with pytest.raises(MissingJarsError):
        resolve((("Maven", resolve_jars.by_maven),))
    assert "'mvn'" in capsys.readouterr().err


def test_chosen_folder_is_used_but_never_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREIO_JARS", str(tmp_path))
    with pytest.raises(MissingJarsError, match="STOREIO_JARS"):
        resolve((("first", way_that_gives(*GOOD)),))
    assert not list(tmp_path.iterdir())
    for name in GOOD:
        (tmp_path / name).touch()
    assert [path.name for path in delta_jars()] == sorted(GOOD)
