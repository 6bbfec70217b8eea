"""What the documentation shows: outputs of commands, command lines, links."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from storeio import cli
from tests import documented, golden_data

PAGES = (documented.ROOT / "README.md", *documented.PAGES)
RUN = [path for path in PAGES if "```console" in path.read_text()]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^    .*\n(?:\n(?=    ))?)+", re.MULTILINE)
SPAN = re.compile(r"`(storeio [a-z][^`]*)`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#[^)\s]*)?\)")
JOB = re.compile(r"jobs[./](\w+)(?:\.py)?\b(.*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SYNOPSIS = re.compile(r"[\[|\]]|\.\.\.$|STORE\.\.\.")


def name_of(path: Path) -> str:
    """Return a page's path below the root, as the name of its case."""
    return str(path.relative_to(documented.ROOT))


@pytest.mark.parametrize("path", RUN, ids=name_of)
def test_outputs_are_what_comes(path: Path, tmp_path: Path) -> None:
    ran = documented.run_page(path.read_text(), tmp_path)
    assert ran
    wrong = documented.complaints(ran)
    assert not wrong, "\n".join([*wrong, "python -m tests.documented --update writes what really comes"])


def test_every_runbook_runs_and_is_in_the_index() -> None:
    folder = documented.ROOT / "docs" / "runbooks"
    index = (folder / "README.md").read_text()
    books = [path for path in folder.glob("*.md") if path.name != "README.md"]
    assert len(books) == 7
    for path in books:
        assert path in RUN
        assert f"]({path.name})" in index
        assert "**Lost:**" in path.read_text()


@pytest.mark.parametrize("path", RUN, ids=name_of)
def test_runbooks_end_sound(path: Path) -> None:
    """Each page shows a check that ends with 0 and a start that is safe, after what it applies."""
    shown = documented.commands(path.read_text())
    applied = [number for number, each in enumerate(shown) if each.command.startswith("storeio apply")]
    for number in applied:
        after = "\n".join("\n".join((each.command, *each.output)) for each in shown[number:])
        assert re.search(r"storeio check \S+( --quiet)?\nSOUND", after)
    assert any(each.output[:1] and each.output[0].startswith("SAFE: every broker line") for each in shown)


def command_lines(page: str) -> Iterator[str]:
    """Yield the lines of a page that are commands: of shell blocks and indented ones, and spans with ``storeio``."""
    fenced = [text for kind, text in FENCE.findall(page) if kind in ("sh", "bash", "shell", "console")]
    rest = FENCE.sub("", page)
    for block in [*fenced, *INDENTED.findall(rest)]:
        whole = re.sub(r"\\\n\s*", " ", block)
        # a synopsis goes on in lines that begin with an option
        whole = re.sub(r"\n\s+(?=\[)", " ", whole)
        for line in whole.splitlines():
            yield re.sub(r"\s#\s.*", "", line.strip().removeprefix("$ ")).strip()
    yield from SPAN.findall(rest.replace("\n", " "))


def storeio_lines() -> list[tuple[str, str]]:
    """Return page and arguments of every documented call of ``storeio``."""
    found = []
    for path in PAGES:
        for line in command_lines(path.read_text()):
            called = re.match(r"(?:\S+=\S+ )*(?:\S*/)?storeio (?=[a-z-])(.*)", line)
            if called:
                found.append((name_of(path), called.group(1)))
    return sorted(set(found))


@pytest.mark.parametrize(("page", "line"), storeio_lines())
def test_command_lines_parse(page: str, line: str) -> None:
    verb, _, rest = line.partition(" ")
    if verb.startswith("-"):
        assert verb in ("--version", "--help")
        return
    command = cli.cli.get_command(click.Context(cli.cli), verb)
    assert command is not None, f"{page}: there is no verb {verb}"
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    unknown = set(OPTION.findall(rest)) - known - {name for p in command.params for name in p.secondary_opts}
    assert not unknown, f"{page}: {verb} has no {unknown}"
    words = shlex.split(re.sub(r"\s[|>].*", "", re.sub(r"\bN\b", "1", rest)))
    if not SYNOPSIS.search(rest) and not all(word.startswith("-") for word in words):
        command.make_context(verb, words)


def test_command_lines_are_found() -> None:
    """The pattern that finds them has not stopped to match."""
    found = storeio_lines()
    assert len(found) > 100
    assert {line.split()[0] for _, line in found} >= {*cli.COMMANDS}


def job_lines() -> list[tuple[str, str, str]]:
    """Return page, module and arguments of every documented call of a job."""
    found = []
    for path in PAGES:
        for line in command_lines(path.read_text()):
            called = JOB.search(line)
            if called and re.match(r"\S*(spark-submit|python)|PATH=|jobs/", line):
                found.append((name_of(path), *called.groups()))
    return sorted(set(found))


@pytest.mark.parametrize(("page", "job", "rest"), job_lines())
def test_options_of_jobs_exist(page: str, job: str, rest: str) -> None:
    module = importlib.import_module(f"jobs.{job}")
    known = set(module.parser()._option_string_actions) if hasattr(module, "parser") else set()
    unknown = set(OPTION.findall(rest)) - known
    assert not unknown, f"{page}: jobs/{job}.py has no {unknown}"


def test_job_lines_are_found() -> None:
    assert {"audit_store", "plan_repair", "rebuild_queues"} <= {job for _, job, _ in job_lines()}


REFERS = {"rebuild": "check", "apply": "plan"}  # pages that say "as for" another one
NAMES = {"settings", "checks", "bytes", "details", "properties", "left_out", "classes"}  # hold names of the data


def keys_of(value: Any) -> Iterator[str]:
    """Yield the keys of a JSON value, at any depth, but for those that come from the data."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        if re.fullmatch(r"\w+", name):
            yield name
        if name not in NAMES or not isinstance(inner, dict):
            yield from keys_of(inner)
    for each in value if isinstance(value, list) else ():
        yield from keys_of(each)


def test_readme_says_where_everything_is() -> None:
    readme = (documented.ROOT / "README.md").read_text()
    parts = [
        path
        for path in (documented.ROOT / "storeio").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    assert {p.name for p in parts if p.name[0] != "_"} - set(re.findall(r"`storeio/([\w.]+)`", readme)) == set()


def words_in_code(name: str) -> set[str]:
    """Return the words of a page that stand between backquotes."""
    page = FENCE.sub("", (documented.ROOT / "docs" / f"{name}.md").read_text())
    return {word for span in re.findall(r"`([^`]*)`", page) for word in re.findall(r"\w+", span)}


def test_every_key_of_json_is_on_the_page_of_its_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = golden_data.without("base-5.5.1", tmp_path / "store", "consumequeue/topic_0")
    (store / golden_data.segment(4)).unlink()
    plan, saved = tmp_path / "plan.json", tmp_path / "saved"
    calls = {
        "check": [[store]],
        "simulate": [[store], [store, "--retention"]],
        "inspect": [[store, *more] for more in ([], ["--records"], ["--units"], ["--index"], ["--hex", "0"])],
        "rebuild": [[store, "--into", tmp_path / "rebuilt"]],
        "salvage": [[store, "--into", saved, "--messages", tmp_path / "saved.jsonl"]],
        "diff": [[store, saved]],
        "plan": [[store, "--out", plan]],
        "apply": [[plan, store]],
    }
    for verb, each in calls.items():
        known = words_in_code(verb) | words_in_code(REFERS.get(verb, verb))
        for words in each:
            cli.run([verb, *map(str, words), "--json", "-"])
            told = {key for line in capsys.readouterr().out.splitlines() for key in keys_of(json.loads(line))}
            assert len(told) > 5
            assert told - known == set(), (verb, words)
    assert set(keys_of(json.loads(plan.read_text()))) - words_in_code("plan") == set()


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_to_files(path: Path) -> None:
    for target in LINK.findall(path.read_text()):
        assert not target or (path.parent / target).exists(), f"{name_of(path)}: {target}"


PAGE = """
```console
$ storeio check store
one
...
four
$ echo $?
4
```
"""


@pytest.mark.parametrize(
    ("real", "code", "wrong"),
    [
        (["one", "two", "three", "four"], 4, 0),
        (["one", "four"], 4, 0),
        (["one", "two", "three"], 4, 1),
        (["two", "one", "four"], 4, 1),
        (["one", "four", "five"], 4, 1),
        (["one", "four"], 0, 1),
    ],
)
def test_comparison(real: list[str], code: int, wrong: int) -> None:
    check, echo = documented.commands(PAGE)
    ran = [documented.Ran(check, tuple(real), code), documented.Ran(echo, (str(code),), 0)]
    assert len(documented.complaints(ran)) == wrong


def test_an_exit_code_must_be_shown() -> None:
    (check,) = documented.commands("```console\n$ storeio check store\n```")
    assert documented.complaints([documented.Ran(check, (), 0)]) == []
    assert len(documented.complaints([documented.Ran(check, (), 4)])) == 1


def test_update_keeps_what_is_left_out() -> None:
    check, echo = documented.commands(PAGE)
    ran = [documented.Ran(check, ("one!", "two", "three", "four."), 0), documented.Ran(echo, ("0",), 0)]
    text = documented.updated(PAGE, ran)
    assert text == PAGE.replace("one\n", "one!\n").replace("four\n", "four.\n").replace("\n4\n", "\n0\n")
    assert documented.updated(text, ran) == text


def test_update_shows_an_exit_code() -> None:
    (check,) = documented.commands("```console\n$ storeio check store\n```")
    text = documented.updated("```console\n$ storeio check store\n```", [documented.Ran(check, ("bad",), 4)])
    assert text == "```console\n$ storeio check store\nbad\n$ echo $?\n4\n```"


def test_only_times_are_not_compared() -> None:
    first = ["Checked 3 files, 385 kB in 0.86 s (449 kB/s); CRC by clmul, storeio 0.1.0, exit", "code 4."]
    second = ["Checked 3 files, 385 kB in 12.86 s (1.44 MB/s); CRC by isal, storeio 0.2.0,", "exit code 4."]
    assert documented.normal(first) == documented.normal(second)
    assert documented.normal(first) != documented.normal([first[0].replace("3 files", "4 files"), first[1]])


def test_no_command_leaves_its_directory() -> None:
    for command in ("rm -r /", "ls ..", "cat ~/x", "curl x", "python x"):
        with pytest.raises(ValueError, match="not a command"):
            documented.run(command)
