"""Plans as JSON: what is written is read again, and nothing that is no plan is taken for one."""

from __future__ import annotations

import pytest
from jsons import changed

from storeio.errors import UsageError
from storeio.plan import model
from storeio.plan.model import Action, Plan

WRITE = Action("write", "consumequeue/a/0/00000000000000000000", 20, 40, 1000, "0" * 64, "f" * 64, 0, "derived", "why")
MOVE = Action("move", "commitlog/copy", 0, 7, 7, "a" * 64, "", model.ZEROS, "metadata", "why", codes=("STRAY_FILE",))
PLAN = Plan(
    "store", "0.1.0", 1, "5.5.1", "plan.json.bytes", 40, "f" * 64, (WRITE, MOVE), {"a": "b"}, {"outcome": "starts"},
    left=("something",),
)  # fmt: skip


def test_what_is_written_is_read_again() -> None:
    assert model.from_json(model.to_json(PLAN)) == PLAN


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        ("format", 2, "format"),
        ("tool", "other", "not a plan"),
        ("actions", {}, "list"),
        ("actions.0", 1, "object"),
        ("actions.0.kind", "burn", "unknown"),
        ("actions.0.risk", "none", "unknown"),
        ("actions.0.path", "path", "path is missing"),
        ("actions.0.position", -1, "out of range"),
        ("actions.0.length", 2**63, "out of range"),
        ("actions.0.length", True, "not of type"),
        ("actions.0.length", 1.0, "not of type"),
        ("actions.0.old_sha256", "A" * 64, "SHA-256"),
        ("actions.0.old_sha256", "../x", "SHA-256"),
        ("actions.0.codes", [1], "texts"),
        ("actions.0.more", 1, "unknown field"),
        ("bytes_length", "1", "not of type"),
        ("store", "store", "store is missing"),
        ("store", "a\0b", "no path"),
        ("store", "\ud800", "no path"),
    ],
)
def test_what_is_no_plan(where: str, value: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        model.from_json(changed(model.to_json(PLAN), where, value))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"tool": "storeio"}'])
def test_what_is_no_json_of_a_plan(text: str) -> None:
    with pytest.raises(UsageError, match="plan"):
        model.from_json(text)
