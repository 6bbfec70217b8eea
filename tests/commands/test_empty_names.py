"""An empty text, as of a shell's variable that is not set, names nothing: not the current directory, not a default."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import golden_data as golden
import pytest

import storeio
from jobs import apply_repair, audit_store, collect_reports, plan_repair, profile_store, rebuild_queues, salvage_store
from jobs.common import JobParser
from storeio import cli
from storeio.commands.inspect_options import InspectCommand
from storeio.errors import UsageError

NEEDED = {"rebuild": ["--into", "new"], "salvage": ["--into", "new"], "plan": [], "diff": ["other"]}
JOBS = {
    apply_repair: ["plan.json"],
    audit_store: ["--store", "s", "--tables", "t"],
    collect_reports: ["--report", "r", "--tables", "t"],
    plan_repair: ["--store", "s", "--tables", "t", "--simulate"],
    profile_store: ["--store", "s", "--tables", "t"],
    rebuild_queues: ["--store", "s", "--tables", "t", "--into", "new"],
    salvage_store: ["--store", "s", "--tables", "t", "--into", "new"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that is the current directory of who forgot to name one."""
    return golden.copy_of("base-5.3.3", tmp_path_factory.mktemp("empty") / "store")


def options() -> Iterator[tuple[str, str]]:
    """Yield each verb with each of its options that takes a text or a path, by its longest spelling."""
    for verb in cli.COMMANDS:
        command = cli.cli.get_command(click.Context(cli.cli), verb)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                exempt = isinstance(command, InspectCommand) and parameter.name in command.may_be_empty
                if not exempt:
                    yield verb, max(parameter.opts, key=len)


@pytest.mark.parametrize("verb", cli.COMMANDS)
def test_no_store_is_not_this_directory(
    verb: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    before = sorted(place.parent.rglob("*"))
    assert cli.run([verb, "", *NEEDED.get(verb, [])]) == 16
    assert "is empty" in capsys.readouterr().err
    assert sorted(place.parent.rglob("*")) == before


@pytest.mark.parametrize(("verb", "option"), sorted(options()))
def test_no_option_takes_an_empty_text(
    verb: str, option: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.parent)
    needed = [] if option == "--into" else NEEDED.get(verb, [])
    assert cli.run([verb, "store", *needed, f"{option}="]) == 16
    assert option in capsys.readouterr().err
    assert [*place.parent.iterdir()] == [place]


def test_one_of_several_stores_is_empty(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert cli.run(["check", str(place), ""]) == 16
    assert cli.run(["diff", str(place), ""]) == 16
    assert cli.run(["apply", "plan.json", ""]) == 16


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_no_option_of_a_job_takes_an_empty_text(job: object, capsys: pytest.CaptureFixture[str]) -> None:
    parser: JobParser = job.parser()  # type: ignore[attr-defined]
    needed = next(words for known, words in JOBS.items() if known is job)
    for action in [*parser._actions]:
        if action.nargs == 0:
            continue
        words = [*needed, f"{action.option_strings[0]}="] if action.option_strings else [""]
        with pytest.raises(SystemExit) as caught:
            parser.parse_args(words)
        assert caught.value.code == 16
        assert (action.option_strings or [action.metavar])[0] in capsys.readouterr().err
    with pytest.raises(SystemExit):
        apply_repair.parser().parse_args(["plan.json", ""])


def test_messages_without_tags_or_keys_may_be_asked_for(place: Path) -> None:
    assert cli.run(["inspect", str(place), "--tag", ""]) == 0
    assert cli.run(["inspect", str(place), "--key", ""]) == 0


@pytest.mark.parametrize("root", ["", "file:", "file://"])
def test_no_function_takes_an_empty_name(root: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for verb in (storeio.check, storeio.simulate, storeio.undo, storeio.open_store):
        with pytest.raises(UsageError):
            verb(root)
