"""What a store holds, shown: files, records, units, index entries, bytes with their meaning.

``records``, ``units``, ``index_entries``, ``files``, ``hex_view`` and ``body`` (``api``) return plain data
(``views``); ``storeio inspect`` prints it as ``text``. Nothing here writes. ``reader`` opens the store. ``selection``
finds records the cheapest way: by ``lookup``, ``queueunits`` or ``indexunits``, else by a ``logwalk``; ``matching``
tests them, and ``recordviews`` makes them views, with the fields of ``layout``. ``filelist`` is of files, ``bodies``
of bodies, ``hexview`` and ``hexvalues`` of bytes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storeio.inspect.api import body, files, hex_view, index_entries, open_reader, records, units
    from storeio.inspect.bodies import Body
    from storeio.inspect.hexview import HexField, HexView
    from storeio.inspect.views import EntryView, ExtView, FileView, RecordView, UnitView

_HOMES = {
    "api": ("body", "files", "hex_view", "index_entries", "open_reader", "records", "units"),
    "bodies": ("Body",),
    "hexview": ("HexField", "HexView"),
    "views": ("EntryView", "ExtView", "FileView", "RecordView", "UnitView"),
}

__all__ = [
    "Body",
    "EntryView",
    "ExtView",
    "FileView",
    "HexField",
    "HexView",
    "RecordView",
    "UnitView",
    "body",
    "files",
    "hex_view",
    "index_entries",
    "open_reader",
    "records",
    "units",
]


def __getattr__(name: str) -> Any:
    """Return a public name, imported when it is first used: ``safe`` alone must not cost the engine's import."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
