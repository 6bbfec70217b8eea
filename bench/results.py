"""What was measured, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from bench import measure, memory, scaling

Figures = dict[str, Any]
MIB: Final = 2**20
GOALS: Final = {"recovery": "10 on one core", "rebuild": "20 on two cores", "simulate": "10"}
INTRO: Final = """# Results

Written by `make bench`. Rates are bytes of the log a second, medians of rounds with a warm page cache unless a line
says otherwise; ratios are of figures of one run. The whole process, Spark's JVM included, is kept on as many cores as a
line says."""


def as_markdown(found: Figures) -> str:
    """Return the page for what ``bench.suite`` found; parts that were not measured are not in it."""
    writers: dict[str, Callable[[Any], Iterable[str]]] = {
        "scaling": _scaling,
        "cases": _cases,
        "brokers": _brokers,
        "curves": _curves,
        "memory": _memory,
    }
    parts = [INTRO]
    for name, write in writers.items():
        if name in found:
            parts += [_about(name, found[name]), *write(found[name]["figures"])]
    return "\n\n".join(parts) + "\n"


def _about(name: str, part: Figures) -> str:
    machine = part["machine"]
    scale = "" if part["scale"] == 1 else f", sizes times {part['scale']}"
    return (
        f"## {name.capitalize()}\n\n{machine['date']}, storeio {machine['storeio']}, {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, {machine['system']}, "
        f"Python {machine['python']}, CRC by {machine['crc_engine']}; {part['rounds']} rounds{scale}."
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, the first column to the left."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _scaling(rows: Sequence[Figures]) -> Iterator[str]:
    yield (
        "Each number of cores in a process of its own, run in turns; ratios are medians over pairs of runs. The\n"
        "controls are the CRC of a block in the cache, which shares nothing, and the sum of the bytes, which shares\n"
        "the memory. Cores were free in rounds before and behind which the first control was "
        f"{scaling.ENOUGH} times as fast\non two: in others the machine gave less than two cores."
    )
    yield table(scaling.HEADINGS, [scaling.cells(row) for row in rows])


def _cases(rows: Sequence[Figures]) -> Iterator[str]:
    yield table(measure.HEADINGS, [measure.cells(row) for row in rows])
    yield "\n".join(f"* {line}" for line in measure.goals(rows))


def _brokers(found: Figures) -> Iterator[str]:
    lines = []
    for name in ("recovery", "rebuild"):
        for cores, ours in found[name]["ours"].items():
            for version, theirs in found[name]["brokers"].items():
                times = (f"{ours['seconds']:.3f}", f"{theirs['seconds']:.3f}", f"{ours['ratio'][version]:.1f}")
                lines.append((name, cores, version, *times, GOALS[name]))
    for one in found["simulate"]:
        if one["load"]:
            times = (f"{one['simulated']['seconds']:.3f}", f"{one['load']['seconds']:.3f}", f"{one['ratio']:.1f}")
            lines.append(("simulate", "all", one["version"], *times, GOALS["simulate"]))
    yield (
        "`recovery`: a full audit against `load` after a crash that left no checkpoint. `rebuild`: queues and index\n"
        "from the log. `simulate`: a clean start against `load`. The brokers' seconds are without the JVM's start."
    )
    yield table(("bench", "cores", "broker", "ours s", "broker s", "times", "goal"), lines)


def _curves(rows: Sequence[Figures]) -> Iterator[str]:
    for curve in dict.fromkeys(row["curve"] for row in rows):
        mine = [row for row in rows if row["curve"] == curve]
        columns = sorted({(row["case"], row["jobs"]) for row in mine})
        lines = []
        for value in dict.fromkeys(row["value"] for row in mine):
            at = {(row["case"], row["jobs"]): row for row in mine if row["value"] == value}
            cells = [f"{at[column]['bytes_per_s'] / 1e9:.2f}" if column in at else "" for column in columns]
            last = next(iter(at.values()))
            peak = max(row["peak_bytes"] for row in at.values())
            lines.append((f"{value:,}", f"{last['records']:,}", *cells, f"{peak / MIB:.0f}"))
        names = [f"{case}, {cores} core{'s'[: cores > 1]}" for case, cores in columns]
        yield f"### {curve}\n\nGB of log a second.\n\n" + table((curve, "records", *names, "peak MiB"), lines)


def _memory(rows: Sequence[Figures]) -> Iterator[str]:
    yield "MiB at their peaks, Spark on two cores; resident memory counts mapped pages, anonymous memory does not."
    yield table(memory.HEADINGS, [memory.cells(row) for row in rows])
    yield "\n".join(f"* {line}" for line in (*memory.slopes(rows), *memory.goals(rows)))
