"""Why a part of a store is left out of a plan, where that is not for what an apply would refuse."""

from __future__ import annotations

from typing import Final

from storeio.checks.index_shape import UNTOLD
from storeio.results import INDEX_SHAPE

DISOWNED: Final = "units of a light queue point at messages that do not list it, perhaps since these are damaged"
UNDECIDED: Final = "a record and the only unit that points at it name different queues; which is right, nothing tells"
MISPLACED: Final = "records that it points at lie elsewhere in the log than they say: mend the log first"
SHAPELESS: Final = f"{UNTOLD}: give {' and '.join(INDEX_SHAPE)} as the broker has them"
CONTRADICTED: Final = "log and queues contradict each other, whatever is mended first"
