"""Planning: from what an audit found to ordered actions, proven on an overlay before anyone applies them."""

from __future__ import annotations

from storeio.plan.results import Planned
from storeio.planning.node import GOALS, REPAIR, SALVAGE, plan_store
from storeio.planning.selection import Selection

__all__ = ["GOALS", "REPAIR", "SALVAGE", "Planned", "Selection", "plan_store"]
