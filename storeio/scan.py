"""Opening a store read-only: its listing, and bytes of its files as arrays.

Nothing here writes, creates or locks. ``local_files`` reads files of this machine, ``storeio.remote`` those of URIs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from storeio.errors import NotAStoreError, UnreadableError, UsageError
from storeio.paths import COMMITLOG, INDEX, OF_A_STORE, StoreFile, end_in_dledger, has_usual_name
from storeio.reading import holes, local_files, local_listing
from storeio.remote import listing as remote_listing
from storeio.remote import reading as remote
from storeio.remote.failures import note, noted_since
from storeio.uris import is_remote, place_of, shown

Bytes = npt.NDArray[np.uint8]

AT_ONCE: Final = 4 << 20
SHORT_HOLE_BYTES: Final = 1 << 20  # reading it costs no more than passing over it


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything below a store root, sorted by path; directories only where no files are below.

    ``versions`` tell of each remote file whether it is still the same; ``links`` are the local names that are links.
    ``taken_ns`` is when it was made, by this process's monotonic clock.
    """

    root: str
    files: tuple[StoreFile, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = field(default=(), compare=False)
    taken_ns: int = field(default=0, compare=False)

    def of_kind(self, kind: str) -> list[StoreFile]:
        """Return the plain files of one kind whose name is a number, by base offset and usual names first."""
        found = [f for f in self.files if f.kind == kind and not f.is_dir and f.base_offset is not None]
        return sorted(found, key=_place_of)

    def get(self, path: str) -> StoreFile | None:
        """Return the entry with this path."""
        return next((f for f in self.files if f.path == path), None)

    def holds_behind(self, file: StoreFile, position: int) -> bool:
        """Tell whether something is not zero behind a position of a file; False where it cannot be read."""
        try:
            return any(
                read_range(self.root, file.path, at, min(at + AT_ONCE, stop)).any()
                for start, stop in data_stretches(self.root, file.path, position, file.size)
                for at in range(start, stop, AT_ONCE)
            )
        except UnreadableError:
            return False  # who reads it whole says so

    def versions_of(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the versions of some files, for ``require_versions``."""
        return {path: self.versions[path] for path in paths if path in self.versions}


def _place_of(file: StoreFile) -> tuple[str, int, int, bool, str]:
    base = file.base_offset or 0
    return file.topic or "", file.queue_id or 0, base, not has_usual_name(file.path, base), file.path


def list_store(root: str | os.PathLike[str]) -> Listing:
    """Return what lies below ``root``, a local directory or a URI.

    Raises:
        NotAStoreError: No such directory, nothing in it that a store consists of, or its log ends in a DLedger log.
        UnreadableError: It cannot be listed, or is a URI that does not answer.
        UsageError: An empty name, which is not the current directory, or a URI that makes no sense.
    """
    place = place_of(os.fspath(root))
    if not place:
        raise UsageError("an empty name is no store; is a variable not set?")
    versions: Mapping[str, str] = {}
    taken_ns, links = time.monotonic_ns(), list[str]()
    if is_remote(place):
        files, unreadable, versions = remote_listing.list_files(place)
    else:
        place = str(Path(place))
        files, unreadable = local_listing.list_files(place, links)
    if not any(f.path.split("/")[0] in OF_A_STORE for f in files):
        raise NotAStoreError(
            f"{shown(place)}: holds no commitlog, queues, index, checkpoint or abort file; not a store"
            f"{'' if is_remote(place) else local_listing.hint(place)}"
        )
    if ends := end_in_dledger(files):
        raise NotAStoreError(f"{shown(place)}: its log is, or goes on in, a DLedger log, which is not read ({ends})")
    files.sort(key=lambda f: f.path)
    return Listing(place, tuple(files), tuple(unreadable), versions, tuple(links), taken_ns)


def changed_since(listing: Listing) -> list[str]:
    """Return what a second look at a remote store tells of files that are not what they were, as path and reason."""
    if not is_remote(listing.root):
        return []
    try:
        _, _, versions = remote_listing.list_files(listing.root)
    except (UnreadableError, NotAStoreError) as error:
        return [f".: could not be listed again: {error}"]
    return _differing(listing.versions, versions)


def _differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    changed = sorted(path for path, version in before.items() if now.get(path) != version)
    return [f"{path}: {'changed' if path in now else 'went'} while it was read" for path in changed]


def require_versions(root: str, versions: Mapping[str, str]) -> None:
    """Raise if remote files are not what they were when a listing gave them these versions.

    Raises:
        UnreadableError: That is so, or cannot be told.
    """
    if versions:
        for text in _differing(versions, remote_listing.versions_beside(root, versions)):
            raise UnreadableError(text)


def failed_since(listing: Listing) -> list[str]:
    """Return what of a remote store could not be read since it was listed, as path and reason.

    Not all who read tell of it, see ``remote.failures``.
    """
    return noted_since(listing.root, listing.taken_ns) if listing.taken_ns and is_remote(listing.root) else []


def go_without(root: str, error: UnreadableError) -> None:
    """Take note of bytes on this machine's disk which could not be read and without which the result still is made.

    Of a remote store each read that fails is noted as it is.
    """
    if not is_remote(root):
        note(root, str(error))


def gone_without(listing: Listing) -> list[str]:
    """Return what ``go_without`` noted of a store since it was listed, as path and reason."""
    return [] if is_remote(listing.root) else noted_since(listing.root, listing.taken_ns)


def require_same(listing: Listing, told: Collection[str] = ()) -> None:
    """Raise if a remote store is not what it was when it was listed, or part of it could not be read since.

    Not for reads of files that are ``told`` of as unread.

    Raises:
        UnreadableError: That is so.
    """
    failed = (text for text in failed_since(listing) if text.partition(": ")[0] not in told)
    for text in (*failed, *changed_since(listing)):
        raise UnreadableError(text)


@contextlib.contextmanager
def naming_store(root: str | os.PathLike[str]) -> Iterator[None]:
    """Run the block, and let what it could not read say of which store that is.

    Raises:
        UnreadableError: As the block raises it, with the store in front.
    """
    try:
        yield
    except UnreadableError as error:
        if error.names_store:
            raise
        place = shown(place_of(os.fspath(root)))
        told = UnreadableError(str(error) if str(error).startswith(place) else f"{place}: {error}")
        told.names_store = True
        raise told from error


def require_listed(listing: Listing, names: Collection[str]) -> None:
    """Raise if a directory or file with one of these names at the top of a store, or below it, could not be looked at.

    What is not there is none: links to nothing, files that a running broker took away. Nor are names of objects in a
    bucket that no file can have, nor what ``is_below_strays``.

    Raises:
        UnreadableError: It could not.
    """
    for path in not_listed(listing, names):
        if not is_below_strays(path):
            raise UnreadableError(f"{path}: {dict(listing.unreadable)[path]}")


def is_below_strays(path: str) -> bool:
    """Tell whether a path lies in a directory among segments or index files, into which nobody looks."""
    return path.split("/")[0] in (COMMITLOG, INDEX) and path.count("/") > 1


def not_listed(listing: Listing, names: Collection[str] = ()) -> list[str]:
    """Return the directories and files that could not be looked at: those for which ``require_listed`` raises.

    Without names, of the whole store.
    """
    found = listing.unreadable if not is_remote(listing.root) else ()
    return [path for path, why in found if why != os.strerror(errno.ENOENT) and (not names or may_be_of(path, names))]


def may_be_of(path: str, names: Collection[str]) -> bool:
    """Tell whether what a listing, or a finding, tells of concerns what has these names at the top of a store."""
    return path == "." or path.split("/")[0] in names


def read_range(root: str, path: str, start: int, stop: int, *, populate_to: int | None = None) -> Bytes:
    """Return bytes ``[start, stop)`` of a file as a read-only array.

    ``root`` is that of a listing. The rest is as in ``local_files.read_bytes``.

    Raises:
        UnreadableError: The file cannot be opened or is shorter than ``stop``.
    """
    if is_remote(root) and start < stop:
        return remote.read_range(root, path, start, stop)
    return local_files.read_bytes(root, path, start, stop, populate_to=populate_to)


@contextlib.contextmanager
def kept_open() -> Iterator[None]:
    """Keep files open from one ``read_range`` to the next, in all threads; of remote ones also what was read last."""
    for ask in (local_files.keep, remote.keep):
        ask(1)
    try:
        yield
    finally:
        for ask in (local_files.keep, remote.keep):
            ask(-1)


def data_stop(root: str, path: str, size: int) -> int:
    """Return a position from which on a file is nothing but holes, as its file system says; ``size`` if unknown.

    Queue and index files are made at full length and filled from the front: what was never
    written need not be read to know that it is zero. Other file systems than local ones do not tell.
    """
    return size if is_remote(root) or not size else local_files.data_stop(os.path.join(root, path), size)


def several(roots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str | os.PathLike[str], ...]:
    """Return store directories; a single one need not stand in a list, of whose letters nobody means each."""
    return (roots,) if isinstance(roots, (str, os.PathLike)) else tuple(roots)


def data_stretches(root: str, path: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a file from ``start`` to ``stop`` that are no holes; what is between them is zero.

    All of it where the file system does not tell, or the file cannot be opened: reading it says why.
    """
    try:
        handle = -1 if is_remote(root) else local_files.open_file(os.path.join(root, path))
    except OSError:
        handle = -1
    if handle < 0:
        yield from [(start, stop)] if start < stop else []
        return
    try:
        yield from holes.data_stretches(handle, start, stop)
    finally:
        os.close(handle)


def long_stretches(root: str, path: str, size: int) -> list[tuple[int, int]]:
    """Return the stretches of a file that are no holes, as ``data_stretches``, with short holes between them joined.

    So there are few even of what was written at many places.
    """
    found: list[tuple[int, int]] = []
    for start, stop in data_stretches(root, path, 0, size):
        if found and start - found[-1][1] < SHORT_HOLE_BYTES:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    return found
