"""What every action must obey, whatever the store holds: paths, numbers, digests, and what needs to be allowed.

``check_plan`` is for who makes plans as much as for who carries them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from storeio.errors import UsageError
from storeio.paths import COMMITLOG, LOCK, MOST_FILE_BYTES, parse_number
from storeio.plan.digest import NOTHING
from storeio.plan.model import ABSENT, CREATE, LOG, MOVE, RENAME, RESIZE, WRITE, ZEROS, Action, Plan
from storeio.plan.overlay import Overlay
from storeio.safe import printable

MOST_NAME_BYTES: Final = 255
MOST_PATH_BYTES: Final = 4000  # of 4096 that Linux takes
_EMPTY: Final = ("", NOTHING)  # digests of no bytes


def check_plan(plan: Plan, *, allow_log: bool = False) -> None:
    """Look at all of a plan but the store: each action alone, and whether one can follow the other.

    Args:
        plan: From ``from_json``, so its fields have their types.
        allow_log: Whether actions may touch the commitlog.

    Raises:
        UsageError: Something does not hold; says which action and what.
    """
    name = plan.bytes_file
    if (name and not is_plain_name(name)) or (not name and plan.bytes_length):
        raise UsageError(f"plan: bytes_file {printable(name)!r}: the plain name of a file beside the plan is needed")
    if not 0 <= plan.bytes_length < 2**63:
        raise UsageError(f"plan: bytes_length {plan.bytes_length} is out of range")
    order = Overlay()
    for number, action in enumerate(plan.actions):
        where = f"plan: action {number}"
        check_action(action, where, plan.bytes_length, allow_log=allow_log)
        try:
            order.apply(action)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None


def is_plain_name(name: str) -> bool:
    """Tell whether a file beside a plan may have this name."""
    return name not in ("", ".", "..") and "/" not in name and not _odd(name)


def check_action(action: Action, where: str, bytes_length: int, *, allow_log: bool) -> None:
    """Look at one action alone: its paths, numbers and digests, and whether it is allowed.

    Raises:
        UsageError: Something does not hold; ``where`` begins the sentence.
    """
    for path in (action.path, action.target) if action.kind == RENAME else (action.path,):
        _check_path(path, where)
    _CHECKS[action.kind](action, where)
    if action.target and action.kind != RENAME:
        raise UsageError(f"{where}: only a rename has a target")
    if action.source != ZEROS and action.source > bytes_length - action.length:
        raise UsageError(f"{where}: its new bytes would end behind the bytes file's {bytes_length}")
    if not allow_log and is_of_log(action):
        raise UsageError(f"{where}: {printable(action.path)}: changes the commitlog; --allow-log allows that")


def is_of_log(action: Action) -> bool:
    """Tell whether an action needs to be allowed: its risk says so, or its path is the log's.

    Something in the log's directory whose name is no number is a stray, and may be moved away.
    """
    parts = action.path.split("/")
    stray = action.kind == MOVE and len(parts) > 1 and parse_number(parts[1]) is None
    return action.risk == LOG or action.target.split("/")[0] == COMMITLOG or (parts[0] == COMMITLOG and not stray)


def _check_path(path: str, where: str) -> None:
    parts = path.split("/")
    shown = printable(path)
    if not path or any(part in ("", ".", "..") for part in parts):
        raise UsageError(f"{where}: path {shown!r} is not relative and plain")
    if any(_odd(part) for part in parts) or len(path.encode("utf-8", "surrogateescape")) > MOST_PATH_BYTES:
        raise UsageError(f"{where}: path {shown!r} holds what no name in a store does, or is too long")
    if parts[0] == LOCK:
        raise UsageError(f"{where}: path {shown!r}: the lock file belongs to the broker")


def _odd(name: str) -> bool:
    """Tell whether a name has characters that a plan may not name, is too long, or cannot be bytes."""
    if any(char < " " or char in "\x7f\\" for char in name):
        return True
    try:
        return len(name.encode("utf-8", "surrogateescape")) > MOST_NAME_BYTES
    except UnicodeEncodeError:
        return True


def _require(where: str, action: Action, rules: Iterator[tuple[bool, str]]) -> None:
    for holds, says in rules:
        if not holds:
            raise UsageError(f"{where}: {action.kind} of {printable(action.path)}: {says}")


def _check_write(action: Action, where: str) -> None:
    def rules() -> Iterator[tuple[bool, str]]:
        yield action.length > 0, "nothing to write"
        yield action.position <= action.old_length - action.length, f"ends behind the file's {action.old_length} bytes"
        yield bool(action.old_sha256 and action.new_sha256), "a digest is missing"

    _require(where, action, rules())


def _check_create(action: Action, where: str) -> None:
    def rules() -> Iterator[tuple[bool, str]]:
        yield action.position == 0 and action.source == ZEROS, "position 0 and zeros are needed"
        yield action.length <= MOST_FILE_BYTES, f"{action.length} bytes are more than a broker's file can have"
        yield action.old_length == ABSENT and action.old_sha256 in _EMPTY, "expects something to be there"

    _require(where, action, rules())


def _check_resize(action: Action, where: str) -> None:
    kept = min(action.length, action.old_length)

    def rules() -> Iterator[tuple[bool, str]]:
        yield action.source == ZEROS and action.position in (0, kept), "zeros, and position 0 or the cut, are needed"
        yield action.old_length >= 0 and action.length != action.old_length, "changes no length"
        if action.length < action.old_length:
            yield action.old_sha256 not in _EMPTY, "the digest of the bytes cut off is missing"
            yield action.new_sha256 in _EMPTY, "a cut has no new bytes"
        else:
            yield action.length <= MOST_FILE_BYTES, f"{action.length} bytes are more than a broker's file can have"
            yield action.old_sha256 in _EMPTY, "appending replaces nothing"

    _require(where, action, rules())


def _check_name(action: Action, where: str) -> None:
    def rules() -> Iterator[tuple[bool, str]]:
        yield action.position == 0 and action.source == ZEROS, "position 0 and no new bytes are needed"
        yield action.old_length >= 0 and bool(action.old_sha256), "the digest of what is there is missing"
        yield action.length in (0, action.old_length) or action.old_length == 0, "its length is not the file's"
        yield action.new_sha256 in ("", action.old_sha256), "its new digest is not the old one"

    _require(where, action, rules())


_CHECKS: Final = {
    WRITE: _check_write,
    CREATE: _check_create,
    RESIZE: _check_resize,
    MOVE: _check_name,
    RENAME: _check_name,
}
