"""What a store holds, shown: files, records, units, index entries, bytes with their meaning.

``records``, ``units``, ``index_entries``, ``files``, ``hex_view`` and ``body`` return plain data;
``storeio inspect`` prints it. Nothing here writes.
"""

from storeio.inspect.api import body, files, hex_view, index_entries, open_reader, records, units
from storeio.inspect.bodies import Body
from storeio.inspect.hexview import HexField, HexView
from storeio.inspect.views import EntryView, ExtView, FileView, RecordView, UnitView

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
