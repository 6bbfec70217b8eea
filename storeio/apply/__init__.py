"""Carrying out plans and taking them back: the only code that writes into a store.

``engine`` carries out and ``undoing`` takes back, in a ``session`` that has the ``locks``. ``expect`` compares the
store with the plan, ``space`` is free or not, ``run`` makes the directory with backups and ``journal`` in the store's
``home``, ``holds`` looks whether the store still is as it was left. One action goes ``forward`` or ``backward``, by
``moving`` files or by bytes from ``sources``, all on a ``tree`` that follows no link; ``operations`` are the calls
that change a disk.
"""

from __future__ import annotations

from storeio.apply.engine import apply_plan, store_of
from storeio.apply.undoing import undo
from storeio.verbs import answer_calls

__all__ = ["apply_plan", "store_of", "undo"]

answer_calls(__name__)
