"""Reports through JSON and back; what is no report is refused."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import golden_data
import numpy as np
import numpy.typing as npt
import pytest
from damage import mutate

from storeio import audit
from storeio.audit.plan import FileReport, file_tasks
from storeio.incremental.codec import form_of, from_plain, to_plain
from storeio.incremental.store_run import look_at_split
from storeio.incremental.verdicts import SplitVerdict, Verdict


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are equal, tables included."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(a.shape == b.shape and a.dtype == b.dtype and (a == b).all())
    if type(a) is not type(b):
        return False
    if hasattr(a, "__dataclass_fields__"):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def reports(root: Path) -> list[tuple[type, Any]]:
    """Return every report of a store, with its type."""
    plan = audit.prepare(str(root), split_bytes=16384)
    files = [audit.run_file_task(plan, task) for task in file_tasks(plan)]
    plan = audit.with_files(plan, files)
    looks = [look_at_split(plan, split) for split in plan.splits]
    made = [SplitVerdict(x.report, x.evidence, ["index/1"]) for x in looks if x.report and x.evidence]
    return [(FileReport, each) for each in files] + [(SplitVerdict, each) for each in made]


@pytest.mark.parametrize("name", ["rich-5.5.1", "ext-4.9.8"])
def test_there_and_back(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    root = golden_data.copy_of(name, tmp_path / "store")
    files = sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file())
    for _ in range(5):
        mutate(rng, root, files)
    for kind, value in reports(root):
        back = from_plain(kind, json.loads(json.dumps(to_plain(value))))
        assert same(back, value), kind


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    """Any one place of a report replaced by something else is read as a report of the same kind, or not at all."""
    rng = random.Random(1)
    kind, value = reports(golden_data.store("base-5.3.3"))[-1]
    text = json.dumps(to_plain(value))
    refused = 0
    for _ in range(300):
        plain = json.loads(text)
        place = plain
        while True:
            at = rng.randrange(len(place))
            if not isinstance(place[at], list) or not place[at] or rng.random() < 0.2:
                break
            place = place[at]
        place[at] = rng.choice([None, "x", 7, -1, 2**70, True, [], [[1], [2, 3]], 1.5, {"a": 1}])
        try:
            assert isinstance(from_plain(kind, plain), kind)
        except ValueError:
            refused += 1
    assert refused > 150


def test_forms_change_with_any_field() -> None:
    @dataclass
    class Inner:
        a: int

    @dataclass
    class Wider:
        a: int
        b: str

    forms = [
        form_of(kind) for kind in (Inner, Wider, list[Inner], list[Wider], dict[str, Inner], npt.NDArray[np.int64])
    ]
    assert len(set(forms)) == len(forms)


def test_a_changed_row_is_not_whole() -> None:
    from storeio.incremental.verdicts import FORMS

    row = Verdict("r", "/s", "file", "index/1", 0, 10, 5, 10, "f", "s", FORMS["file"], "c", "").sealed()
    assert row.is_whole()
    for field in fields(Verdict):
        changed = {f.name: getattr(row, f.name) for f in fields(Verdict)}
        changed[field.name] = f"{changed[field.name]}0" if isinstance(changed[field.name], str) else 99
        assert not Verdict(**changed).is_whole(), field.name
