"""A plan as plain data: ordered actions, each with what it expects to replace and where its new bytes come from.

New bytes lie side by side in one file beside the plan, the *bytes file*; zeros need none. Each action
changes one range of one file, or one name, so that an apply that was killed can be finished or taken
back action by action.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from storeio.errors import UsageError
from storeio.shape import check_fields

WRITE: Final = "write"  # replace [position, position + length) of a file, which reaches so far
CREATE: Final = "create"  # make a file of ``length`` zeros where nothing is; later writes fill it
RESIZE: Final = "resize"  # make a file ``length`` bytes long: cut it, or append zeros
MOVE: Final = "move"  # take a file or directory out of the store, into the directory that keeps backups
RENAME: Final = "rename"  # give a file the name ``target`` within the store, where nothing is
KINDS: Final = (WRITE, CREATE, RESIZE, MOVE, RENAME)

DERIVED: Final = "derived"  # queues, ext files and indexes: all follows from the log
METADATA: Final = "metadata"  # checkpoint, and names of things that are none of the broker's
LOG: Final = "log"  # the commitlog itself
RISKS: Final = (DERIVED, METADATA, LOG)

FORMAT: Final = 1
ZEROS: Final = -1  # as ``source``: the new bytes are zeros
ABSENT: Final = -1  # as ``old_length``: there is no such file
SHA256_DIGITS: Final = 64


@dataclass(frozen=True, slots=True)
class Action:
    """One intended change. Paths are relative to the store root, with slashes.

    ``old_sha256`` is of what the action replaces: the range of a write; the bytes that a resize cuts
    off; the whole file that is moved or renamed; of a directory that is moved its listing, see
    ``storeio.apply``; empty where nothing is replaced. ``old_length`` is the file's whole length when
    the action begins, ``ABSENT`` if there is none, 0 for a directory. ``source`` is where the new bytes
    begin in the bytes file, or ``ZEROS``; ``new_sha256`` is of them.
    """

    kind: str
    path: str
    position: int
    length: int
    old_length: int
    old_sha256: str
    new_sha256: str
    source: int
    risk: str
    reason: str
    target: str = ""
    codes: tuple[str, ...] = ()
    topic: str | None = None
    queue_id: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one store needs, in the order in which it is done.

    ``store`` is the root as it was named. ``before`` and ``after`` are what simulated starts say,
    in the words of ``storeio simulate --json``. ``left`` are sentences about what is not planned.
    """

    store: str
    version: str
    created_ms: int
    broker: str
    bytes_file: str
    bytes_length: int
    bytes_sha256: str
    actions: tuple[Action, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def to_json(plan: Plan) -> str:
    """Return the plan as a text that a person can read; every line ends."""
    found = {"tool": "storeio", "format": FORMAT, **asdict(replace(plan, actions=()))}
    found["actions"] = [as_object(action) for action in plan.actions]
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"


def as_object(action: Action) -> dict[str, Any]:
    """Return an action by the names of its fields; ``asdict`` would copy each, of which there may be thousands."""
    return {name: getattr(action, name) for name in Action.__dataclass_fields__}


def from_json(text: str) -> Plan:
    """Return the plan that a text holds; only its shape is looked at, not the store.

    Raises:
        UsageError: It is no plan, or one of a format that this version does not know.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"plan: not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("tool") != "storeio" or "actions" not in found:
        raise UsageError("plan: not a plan of storeio")
    if found.pop("format", None) != FORMAT:
        raise UsageError(f"plan: not of format {FORMAT}")
    del found["tool"]
    actions = found.pop("actions")
    if not isinstance(actions, list):
        raise UsageError("plan: actions: a list is needed")
    made = tuple(_action(number, row) for number, row in enumerate(actions))
    check_fields(Plan, found, "plan", without=("actions",))
    if not _is_path(found["store"]):
        raise UsageError("plan: store: holds what no path does")
    return Plan(**{**found, "left": tuple(found.get("left", ()))}, actions=made)


def _is_path(text: str) -> bool:
    """Tell whether a text can be handed to the system as a path."""
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def _action(number: int, row: object) -> Action:
    where = f"plan: action {number}"
    known = check_fields(Action, row, where)
    action = Action(**{**known, "codes": tuple(known.get("codes", ()))})
    if action.kind not in KINDS or action.risk not in RISKS:
        raise UsageError(f"{where}: kind {action.kind!r} or risk {action.risk!r} is unknown")
    numbers = (action.position, action.length, action.old_length, action.source)
    if min(action.position, action.length) < 0 or min(numbers) < -1 or max(numbers) >= 2**63:
        raise UsageError(f"{where}: position, length, old_length or source is out of range")
    for digest in (action.old_sha256, action.new_sha256):
        if digest and (len(digest) != SHA256_DIGITS or not set(digest) <= set("0123456789abcdef")):
            raise UsageError(f"{where}: {digest!r} is no SHA-256")
    return action
