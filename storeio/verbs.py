"""The verbs of the command line as functions of ``storeio``.

Some packages have a verb's name and hide the function, so they answer a call with it. Verbs are imported when
they are called: pure packages stay free of what reads and writes files, and the kernels take most of a second.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

VERBS: Final = {
    "check": ("storeio.audit", "check"),
    "diff": ("storeio.compare.node", "diff"),
    "simulate": ("storeio.predict.start", "simulate"),
    "rebuild": ("storeio.rebuild.node", "rebuild"),
    "salvage": ("storeio.salvage.node", "salvage"),
    "plan": ("storeio.planning.node", "plan_store"),
    "apply": ("storeio.apply.engine", "apply_plan"),
    "undo": ("storeio.apply.undoing", "undo"),
}


def verb(name: str) -> Callable[..., Any]:
    """Return the function of a verb."""
    module, function = VERBS[name]
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


class _Callable(ModuleType):
    """A package that can be called as the verb of its name."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return what the verb returns."""
        return self._verb(*arguments, **named)

    @property
    def _verb(self) -> Callable[..., Any]:
        return verb(self.__name__.rpartition(".")[2])

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the verb, for ``inspect.signature`` and what notebooks show."""
        return inspect.signature(self._verb)


def answer_calls(package: str) -> None:
    """Make a package of a verb's name callable."""
    sys.modules[package].__class__ = _Callable
