"""One run directory: made before the store is changed, opened again by who resumes or takes back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storeio.apply.home import BACKUP, BYTES, INDEX, PART, PLAN
from storeio.apply.journal import JOURNAL, Journal, first_line
from storeio.apply.moving import MOVED, content_sha256, moved_path
from storeio.apply.sources import BytesFile, bytes_of, old_length
from storeio.apply.tree import Tree
from storeio.errors import MismatchError, NotAppliedError, UsageError
from storeio.plan.contents import Piece
from storeio.plan.digest import PIECE_BYTES, digest_of, zeros, zeros_sha256
from storeio.plan.model import MOVE, Action, Plan, from_json
from storeio.plan.overlay import Overlay
from storeio.plan.rules import check_plan

MOST_PLAN_BYTES = 1 << 30
NO_BACKUP = -1  # zeros, which need none


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan, its text and where its bytes file is."""

    plan: Plan
    text: bytes
    beside: BytesFile

    @property
    def sha256(self) -> str:
        """The digest of the text."""
        return hashlib.sha256(self.text).hexdigest()


def load_plan(tree: Tree, name: str, bytes_name: str | None, *, allow_log: bool) -> LoadedPlan:
    """Return a plan that obeys every rule, whatever the store holds.

    Args:
        tree: The directory it lies in.
        name: The plan's file.
        bytes_name: The bytes file's, None for the one that the plan names.
        allow_log: Whether it may change the commitlog.

    Raises:
        UsageError: It is no plan, or breaks a rule.
    """
    length = tree.look(name)
    if not isinstance(length, int) or length > MOST_PLAN_BYTES:
        raise UsageError(f"{tree.shown(name)}: not a plan's file")
    with tree.reading(name) as fd:
        text = b"".join(tree.read(fd, 0, length, name))
    plan = plan_in(text, tree.shown(name))
    check_plan(plan, allow_log=allow_log)
    return LoadedPlan(plan, text, BytesFile(tree, plan.bytes_file if bytes_name is None else bytes_name))


def plan_in(text: bytes, path: str) -> Plan:
    """Return the plan that a file holds.

    Raises:
        UsageError: It is none; names the file.
    """
    try:
        return from_json(text.decode())
    except UnicodeDecodeError:
        raise UsageError(f"{path}: plan: not UTF-8") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def backup_places(actions: Sequence[Action]) -> tuple[list[int], int]:
    """Return where in ``backup`` each action's old bytes begin, and how long it is; ``NO_BACKUP`` where none are."""
    places, end = [], 0
    for action in actions:
        length = old_length(action)
        if not length or action.old_sha256 == zeros_sha256(length):
            places.append(NO_BACKUP)
            continue
        places.append(end)
        end += length
    return places, end


@dataclass(slots=True)
class Run:
    """An apply that may have changed the store."""

    name: str
    tree: Tree
    loaded: LoadedPlan
    journal: Journal
    places: list[int]

    @property
    def actions(self) -> tuple[Action, ...]:
        """The plan's actions."""
        return self.loaded.plan.actions

    def old_bytes(self, number: int) -> Iterator[bytes]:
        """Yield what an action replaced or cut off."""
        place, length = self.places[number], old_length(self.actions[number])
        if place == NO_BACKUP:
            yield from zeros(length)
            return
        with self.tree.reading(BACKUP) as fd:
            yield from self.tree.read(fd, place, length, BACKUP)

    def was_zeros(self, number: int) -> bool:
        """Tell whether an action replaced or cut off zeros, or nothing, which has no backup."""
        return self.places[number] == NO_BACKUP

    def holds_backup(self, number: int) -> bool:
        """Tell whether the backup of an action is what it was."""
        action, place = self.actions[number], self.places[number]
        if place == NO_BACKUP:
            return True
        return digest_of(self.old_bytes(number)) == action.old_sha256

    def holds_moved(self, number: int) -> bool:
        """Tell whether what an action moved out is whole."""
        return content_sha256(self.tree, moved_path(number)) == self.actions[number].old_sha256

    def close(self) -> None:
        """Let go of the directory."""
        self.tree.close()


def open_run(home: Tree, name: str) -> Run:
    """Return a run to go on with; a torn last line of its journal is cut off.

    Raises:
        NotAppliedError: Its plan or bytes are not those that it began with.
    """
    tree = home.below(name)
    try:
        journal = Journal(tree, cut=True)
        try:
            loaded = load_plan(tree, PLAN, BYTES, allow_log=True)
        except UsageError as error:
            raise NotAppliedError(f"{tree.shown(PLAN)}: {error}") from error
        plan = loaded.plan
        whole = loaded.sha256 == journal.progress.plan_sha256
        if plan.bytes_file and whole:
            whole = tree.look(BYTES) == plan.bytes_length
            whole = whole and tree.digest(BYTES, 0, plan.bytes_length) == plan.bytes_sha256
        if not whole:
            raise NotAppliedError(f"{tree.shown(PLAN)}: the plan or its bytes were changed since the apply began")
        return Run(name, tree, loaded, journal, backup_places(plan.actions)[0])
    except BaseException:
        tree.close()
        raise


def prepare(home: Tree, name: str, loaded: LoadedPlan, overlay: Overlay, store: Tree) -> None:
    """Make a run directory under the name with ``.part``: plan, bytes, and backups; all of it is on the disk then.

    Args:
        home: Where it is made.
        name: Its name.
        loaded: A plan that fits the store.
        overlay: Looks at the store, nothing assumed.
        store: The store, which is only read.

    Raises:
        MismatchError: What was copied is not what the plan expects: somebody changed it meanwhile.
    """
    home.make_folder(name + PART)
    tree = home.below(name + PART)
    plan = loaded.plan
    try:
        tree.make_folder(MOVED)
        tree.write_new(PLAN, _in_pieces(loaded.text))
        if plan.bytes_file:
            with loaded.beside.tree.reading(loaded.beside.name) as fd:
                tree.write_new(BYTES, loaded.beside.tree.read(fd, 0, plan.bytes_length, loaded.beside.name))
            if tree.digest(BYTES, 0, plan.bytes_length) != plan.bytes_sha256:
                raise MismatchError(f"bytes file {loaded.beside.name}: changed while it was copied")
        places, _ = backup_places(plan.actions)
        own = BytesFile(tree, BYTES)
        tree.write_new(BACKUP, _replaced(plan.actions, places, overlay, store, own))
        for number, action in enumerate(plan.actions):
            place = places[number]
            if place != NO_BACKUP and tree.digest(BACKUP, place, old_length(action)) != action.old_sha256:
                raise MismatchError(f"{action.path}: changed while it was backed up")
        tree.write_new(INDEX, _in_pieces(_index(plan.actions, places)))
        tree.write_new(JOURNAL, [first_line(loaded.sha256)])
        tree.sync_folder("")
    finally:
        tree.close()


def _replaced(
    actions: Sequence[Action], places: Sequence[int], overlay: Overlay, store: Tree, beside: BytesFile
) -> Iterator[bytes]:
    """Yield all old bytes that need a backup, side by side."""
    for action, place in zip(actions, places, strict=True):
        if place != NO_BACKUP:
            pieces: list[Piece] = overlay.replaced(action) or []
            yield from bytes_of(pieces, store, beside)
        overlay.apply(action)


def _index(actions: Sequence[Action], places: Sequence[int]) -> bytes:
    """Return what lies where, for a person who has only this directory and other tools."""
    rows = [
        {
            "action": number,
            "kind": action.kind,
            "path": action.path,
            "position": action.position if action.kind != "resize" else min(action.length, action.old_length),
            "length": old_length(action),
            "in_backup_at": places[number] if places[number] != NO_BACKUP else None,
            "sha256": action.old_sha256,
            "moved_to": moved_path(number) if action.kind == MOVE else None,
        }
        for number, action in enumerate(actions)
    ]
    return (json.dumps(rows, indent=1, ensure_ascii=True) + "\n").encode()


def _in_pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]
