"""Check, explain, rebuild and repair the store directories of Apache RocketMQ brokers.

The verbs of the command line are functions here: ``storeio.check(root)`` returns the audit,
``storeio.simulate(root, broker="5.3.3")`` what a broker would do at its next start, ``storeio.rebuild(root, into)``
what it built of the log, ``storeio.salvage(root, into)`` what it saved of a damaged one, ``storeio.diff(one, other)``
where two logs part, ``storeio.plan(root, out)`` what is to be done; ``storeio.apply(plan, root)`` does it and
``storeio.undo(root)`` takes it back, the only two that write into a store. ``storeio.inspect`` holds what looks
at single records, units and index units.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storeio import inspect
    from storeio.apply.engine import apply_plan as apply
    from storeio.apply.undoing import undo
    from storeio.audit import check
    from storeio.compare.node import diff
    from storeio.planning.node import plan_store as plan
    from storeio.predict.start import simulate
    from storeio.rebuild.node import rebuild
    from storeio.salvage.node import salvage
    from storeio.store import Store, open_store

__version__ = "0.1.0"
__all__ = [
    "Store", "__version__", "apply", "check", "diff", "inspect", "open_store", "plan", "rebuild", "salvage",
    "simulate", "undo",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the names that there are, those that are not imported yet among them."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Return a verb, imported when it is first used: the kernels take most of a second."""
    from storeio.verbs import VERBS, verb

    if name in VERBS:
        return verb(name)
    if name in ("open_store", "Store"):
        from storeio import store

        return getattr(store, name)
    if name == "inspect":
        return importlib.import_module("storeio.inspect")
    raise AttributeError(f"module 'storeio' has no attribute {name!r}")
