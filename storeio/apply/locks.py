"""Nobody else at the store: the broker's lock on its ``lock`` file, and our own on the directory beside the store.

Source: ``DefaultMessageStore.start`` locks byte 0 of the file with ``FileChannel.tryLock(0, 1, false)``, which on POSIX
systems is a record lock. ``BrokerController`` never starts a store whose lock another process holds.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from storeio.apply.operations import OperationError, naming
from storeio.apply.tree import Tree
from storeio.errors import MismatchError, NotAppliedError, StoreError
from storeio.paths import LOCK
from storeio.plan.overlay import GONE, Folder

MARK: Final = "lock-was-made"  # in the directory beside the store: its lock file is ours, and goes when we go
_HELD: Final = (errno.EACCES, errno.EAGAIN)


class HeldError(NotAppliedError):
    """Somebody else holds the lock."""


@contextmanager
def only_us(home: Tree) -> Iterator[None]:
    """Keep other applies of this store away while the block runs.

    Raises:
        HeldError: One is running.
    """
    with home.folder() as fd:
        try:
            with naming("lock", home.shown("")):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OperationError as error:
            if error.errno in _HELD:
                raise HeldError(f"{home.shown('')}: another apply or undo of this store is running") from error
            raise
        yield


@contextmanager
def no_broker(store: Tree, home: Tree) -> Iterator[None]:
    """Hold the broker's own lock while the block runs. A lock file that was not there is gone again afterwards.

    Raises:
        HeldError: A broker holds it.
        MismatchError: There is no telling whose it is; nothing was changed.
    """
    if isinstance(home.look(MARK), Folder):  # it could not be removed once all is done
        raise MismatchError(f"{home.shown(MARK)}: a directory where storeio keeps a file; remove it first")
    if isinstance(store.look(LOCK), Folder):
        raise MismatchError(f"{LOCK}: a directory where brokers keep a file; remove it first")
    with ExitStack() as files:
        try:
            if store.look(LOCK) == GONE:
                if home.look(MARK) == GONE:
                    os.close(home.make_file(MARK))
                    home.sync_folder("")
                os.close(store.make_file(LOCK))
            _take(files.enter_context(store.writing(LOCK)))
            yield
        except HeldError:
            raise
        except BaseException:
            with suppress(OSError, StoreError):  # the first error is the one to report; the mark stays
                _leave(store, home)
            raise
        _leave(store, home)


def _take(fd: int) -> None:
    try:
        with naming("lock", LOCK):
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
    except OperationError as error:
        if error.errno in _HELD:
            raise HeldError(f"{LOCK}: held by another process: a broker is running on this store") from error
        raise


def _leave(store: Tree, home: Tree) -> None:
    """Remove a lock file of ours, still locked, unless a broker has written into it since."""
    if home.look(MARK) == GONE:
        return
    if store.look(LOCK) == 0:
        store.remove_file(LOCK)
    home.remove_file(MARK)
