"""Planning: from what an audit found to ordered actions, proven on an overlay before anyone applies them."""

from __future__ import annotations

from storeio.plan.results import Planned
from storeio.planning.node import Selection, plan_store

__all__ = ["Planned", "Selection", "plan_store"]
