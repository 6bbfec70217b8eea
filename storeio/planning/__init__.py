"""Planning: from what an audit found to ordered actions, proven on an overlay before anyone applies them."""

from __future__ import annotations

from storeio.plan.results import GOALS, REPAIR, SALVAGE, Planned
from storeio.planning.node import plan_store
from storeio.planning.selection import Selection

__all__ = ["GOALS", "REPAIR", "SALVAGE", "Planned", "Selection", "plan_store"]
