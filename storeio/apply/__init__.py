"""Carrying out plans and taking them back: the only code that writes into a store."""

from __future__ import annotations

from storeio.apply.engine import apply_plan, store_of
from storeio.apply.undoing import undo
from storeio.verbs import answer_calls

__all__ = ["apply_plan", "store_of", "undo"]

answer_calls(__name__)
