"""What names and files of a store would be after some actions, without doing them: plain bookkeeping, no IO.

Without ``look`` nothing is known of the store, and each action is believed as far as it says itself what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from storeio.errors import UsageError
from storeio.plan.contents import ANY, BYTES, DISK, ZERO, Contents, Piece
from storeio.plan.model import CREATE, MOVE, RENAME, RESIZE, WRITE, ZEROS, Action
from storeio.safe import printable


class WrittenError(UsageError):
    """An action writes where one before it wrote."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing has this name, and so nothing lies below it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory; a ``new`` one holds only what later actions put there."""

    new: bool = False


Known = Contents | Gone | Folder
GONE: Final = Gone()


class Overlay:
    """Names that actions touched, with what is there now; all other names are as ``look`` finds them.

    Args:
        look: Length of the file on disk at a path, a ``Folder`` or ``GONE``; None where no disk is looked at.
    """

    def __init__(self, look: Callable[[str], int | Folder | Gone] | None = None) -> None:
        """Begin with nothing touched."""
        self.names: dict[str, Known] = {}
        self._above: set[str] = set()  # directories above touched names
        self._look = look

    def find(self, path: str) -> Known | None:
        """Return what is at a path, None if that is not known.

        Raises:
            UsageError: A name above it is a file's.
        """
        if path in self.names:
            return self.names[path]
        for above in parents(path):
            known = self.names.get(above)
            if isinstance(known, Contents):
                raise UsageError(f"{printable(path)}: {printable(above)} is a file")
            if known == GONE or known == Folder(new=True):
                return GONE
        if self._look is None:
            return None
        found = self._look(path)
        return Contents(Piece(found, DISK, 0, path)) if isinstance(found, int) else found

    def is_changed_below(self, path: str) -> bool:
        """Tell whether an action so far was about something in a directory of this name."""
        return path in self._above

    def file(self, action: Action) -> Contents:
        """Return the file that an action finds, of the length that it expects.

        Raises:
            UsageError: Something else is there.
        """
        found = self.find(action.path)
        if found is None:
            if action.path in self._above:
                raise UsageError(f"{printable(action.path)}: is a directory")
            return Contents(Piece(max(action.old_length, 0), ANY))
        if not isinstance(found, Contents):
            raise UsageError(f"{printable(action.path)}: {'nothing' if found == GONE else 'a directory'} is there")
        if found.length != action.old_length:
            raise UsageError(f"{printable(action.path)}: {found.length} bytes long, not {action.old_length}")
        return found

    def replaced(self, action: Action) -> list[Piece] | None:
        """Return the bytes that an action replaces or whose name it takes; None for a directory that is moved.

        Raises:
            UsageError: The action does not fit.
        """
        if action.kind == CREATE:
            return []
        if action.kind == MOVE and self._is_folder(action.path):
            return None
        contents = self.file(action)
        if action.kind == WRITE:
            return contents.pieces(action.position, action.length)
        if action.kind == RESIZE:
            return contents.pieces(min(action.length, contents.length), max(contents.length - action.length, 0))
        return contents.pieces(0, contents.length)

    def _is_folder(self, path: str) -> bool:
        return isinstance(self.find(path), Folder)

    def apply(self, action: Action) -> None:
        """Let an action happen.

        Raises:
            WrittenError: It writes where one before it wrote.
            UsageError: It cannot, after those before it.
        """
        if action.kind in (CREATE, RENAME):
            self._need_room(action.target or action.path)
        if action.kind == WRITE:
            if any(piece.written for piece in self.file(action).pieces(action.position, action.length)):
                raise WrittenError(f"{printable(action.path)}: writes where an earlier action wrote")
        elif action.kind == MOVE:
            if action.path in self._above and self.find(action.path) != GONE:
                raise UsageError(f"{printable(action.path)}: moved after something in it was changed")
            if not self._is_folder(action.path) and self.find(action.path) is not None:
                self.file(action)
        elif action.kind != CREATE:
            self.file(action)
        self.assume(action)

    def assume(self, action: Action) -> None:
        """Let an action have happened, whether it fits or not: for one that is done, or was begun."""
        if action.kind == CREATE:
            self._put(action.path, Contents(Piece(action.length, ZERO)))
            return
        if action.kind == MOVE:
            self._put(action.path, GONE)
            return
        found = self.find(action.path)
        if action.kind == RENAME and found == GONE:
            found = self.find(action.target)  # begun, and it came so far
        contents = found if isinstance(found, Contents) else Contents(Piece(max(action.old_length, 0), ANY))
        if action.kind == WRITE:
            zeros = action.source == ZEROS
            origin, place = (ZERO, 0) if zeros else (BYTES, action.source)
            contents.put(action.position, Piece(action.length, origin, place, written=True))
            self._put(action.path, contents)
        elif action.kind == RESIZE:
            contents.resize(action.length)
            self._put(action.path, contents)
        else:
            contents.sha256 = action.old_sha256
            self._put(action.path, GONE)
            self._put(action.target, contents)

    def _need_room(self, path: str) -> None:
        """Raise unless a file can be made at a path: nothing is there, and nothing above it is a file."""
        found = self.find(path)
        if isinstance(found, Contents | Folder) or (found is None and path in self._above):
            raise UsageError(f"{printable(path)}: something is there already")

    def _put(self, path: str, known: Known) -> None:
        """Set what is at a path. Directories above it come into being with it."""
        if known != GONE:
            for above in parents(path):
                if self.find(above) != GONE:
                    break  # what is above something is there
                self.names[above] = Folder(new=True)
        self.names[path] = known
        self._above.update(parents(path))

    def new_parents(self, path: str) -> list[str]:
        """Return the directories above a path that are not there, the outermost first."""
        return [above for above in reversed(list(parents(path))) if self.find(above) == GONE]


def parents(path: str) -> Iterator[str]:
    """Yield the directories above a path, the nearest first, the store root not among them."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
