"""Where a rebuild goes: a directory of a local disk, or a URI. Either appears whole or tells that it is not.

Files for a URI are made in a directory for temporary files and uploaded from there, each whole.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from storeio.errors import UsageError, WriteError
from storeio.output.partials import left_notes, partial_name
from storeio.output.staging import Staging
from storeio.output.targets import checked_target
from storeio.remote import listing, writing
from storeio.remote.filesystem import opened
from storeio.uris import is_below, is_remote, name_of, place_of, shown, sibling

UPLOADERS: Final = 8  # an upload mostly waits


def target_of(into: str | os.PathLike[str], store: str | os.PathLike[str]) -> Path | str:
    """Return where an output is to go: a directory as a path, anything else as a URI.

    Raises:
        UsageError: It lies in the store, which is never written, or holds something.
        UnreadableError: The URI does not answer.
    """
    root = place_of(os.fspath(store))
    try:
        place = place_of(os.fspath(into))
    except UsageError as error:
        raise UsageError(f"--into {error}") from None
    if not is_remote(place):
        return checked_target(place, root)
    if not name_of(place):
        raise UsageError(f"--into {shown(place)}: is no name for a new directory")
    if is_remote(root) and is_below(place, root):
        raise UsageError(f"--into {shown(place)}: lies inside the store {shown(root)}, which is never written")
    writing.free_place(place)
    return place


def begin(place: Path | str) -> Staging:
    """Return the output in the making at a place that ``target_of`` gave.

    Raises:
        WriteError: It cannot be begun.
    """
    return Staging(place) if isinstance(place, Path) else RemoteStaging(place)


@contextlib.contextmanager
def begun(place: Path | str) -> Iterator[Staging]:
    """Give an output in the making; removed if what is done with it fails."""
    staging = begin(place)
    try:
        yield staging
    except BaseException:
        staging.abandon()
        raise


class RemoteStaging(Staging):
    """Files that are made in a local directory, and uploaded when they are finished."""

    def __init__(self, into: str) -> None:
        """Begin: on an object store the mark is put down, so that what follows cannot be taken for whole.

        Raises:
            WriteError: It cannot be written there.
        """
        self.into = into
        self.marked = not opened(into).has_rename
        self._token = secrets.token_hex(16)
        self._upload_to = into if self.marked else sibling(into, partial_name(name_of(into)))
        self._uploaded: dict[str, int] = {}
        self._scratch = Path(tempfile.mkdtemp(prefix="storeio-"))
        try:
            super().__init__(self._scratch / "new")
            self.name = shown(into)
            if self.marked:
                self.notes = (
                    f"the output is complete: {listing.COMPLETE} lists its files and was written last; while "
                    f"{listing.WRITING} is there, or {listing.COMPLETE} is not, it is not whole",
                )
                writing.begin(into, self._token)
            else:
                self.notes = left_notes(name_of(into), writing.names_beside(into))
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise

    @property
    def shared(self) -> Path | str:
        """The URI that other processes upload files to."""
        return self._upload_to

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        """Return those of the files that others have not uploaded; the rest are part of the output."""
        found = writing.sizes_below(self._upload_to)
        there = {path: size for path, size in sizes.items() if found.get(path) == size}
        self._uploaded |= there
        return [path for path in sizes if path not in there]

    def remove(self, path: str) -> None:
        """Remove a directory with all that is in it, here and there.

        Raises:
            WriteError: It could not be removed there.
        """
        super().remove(path)
        if not self.marked:
            writing.remove_directory(self._upload_to, path)
            return
        left = [found for found in writing.sizes_below(self._upload_to) if found.startswith(f"{path}/")]
        with ThreadPoolExecutor(UPLOADERS) as pool:
            list(pool.map(partial(writing.remove, self._upload_to), left))

    def finish(self, jobs: int) -> list[str]:
        """Upload what was made here, and have the output known as whole; return the files' paths, sorted.

        Raises:
            WriteError: It could not be written.
        """
        self._close()
        made = {p.relative_to(self.partial).as_posix(): p for p in self.partial.rglob("*") if p.is_file()}
        with ThreadPoolExecutor(max(jobs, UPLOADERS)) as pool:
            done = [pool.submit(writing.upload, self._upload_to, path, source) for path, source in made.items()]
            try:
                for each in done:
                    each.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self._uploaded |= {path: source.stat().st_size for path, source in made.items()}
        if not self._uploaded:
            raise WriteError(f"{self.name}: nothing was built; a place without files cannot be made")
        if self.marked:
            writing.complete(self.into, self._token, self._uploaded)
        else:
            writing.rename(self._upload_to, self.into)
        self.into = ""
        shutil.rmtree(self._scratch, ignore_errors=True)
        return sorted(self._uploaded)

    def abandon(self) -> None:
        """Remove everything here, and there as far as it can be reached; nothing of an output that is finished."""
        if not self.into:
            return
        super().abandon()
        shutil.rmtree(self._scratch, ignore_errors=True)
        writing.abandon(self._upload_to, self._token, marked=self.marked)
