"""Check, explain and rebuild the store directories of Apache RocketMQ brokers.

The verbs of the command line are functions here: ``storeio.check(root)`` returns the audit,
``storeio.simulate(root, broker="5.3.3")`` what a broker would do at its next start, ``storeio.rebuild(root, into)``
what it built of the log; ``storeio.inspect`` holds what looks at single records, units and index units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storeio.audit import check
    from storeio.store import Store, open_store

__version__ = "0.1.0"
__all__ = ["Store", "__version__", "check", "open_store", "rebuild", "simulate"]


def __getattr__(name: str) -> Any:
    """Return a verb, imported when it is first used: the kernels take most of a second."""
    if name == "check":
        from storeio.audit import check

        return check
    if name == "simulate":  # until the package of this name is imported, which answers a call alike
        from storeio.prediction import simulate

        return simulate
    if name == "rebuild":  # likewise
        from storeio.rebuild.node import rebuild

        return rebuild
    if name in ("open_store", "Store"):
        from storeio import store

        return getattr(store, name)
    raise AttributeError(f"module 'storeio' has no attribute {name!r}")
