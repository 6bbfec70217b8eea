"""What a broker of each line does at its next start: pure, from a view of the store to an outcome.

``storeio.simulate(root)`` is the verb, of ``storeio.prediction``; a package hides a function of its name,
so this one answers a call with it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """A package that can be called as the verb of its name."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return ``storeio.prediction.simulate(...)``; it reads files, which nothing in here does."""
        return importlib.import_module("storeio.prediction").simulate(*arguments, **named)


sys.modules[__name__].__class__ = _Verb
