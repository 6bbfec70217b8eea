"""Planning: from what an audit found to ordered actions, proven on an overlay before anyone applies them.

``node`` has the order: it audits, has a ``planner`` make a plan, asks whether a start on the result does ``harm``,
tries again without the part that does, and keeps the best (``finished``, ``output``). A planner goes by the findings
that ``selection`` wants, and a ``summary`` of them:

* ``layout`` puts directories and segments right, ``misplaced`` knows records that the log has again after that, and
  ``salvaging`` makes a damaged log whole.
* ``derived`` makes queues, index and checkpoint what a rebuild says they are: a ``target`` is one queue, ``obstacles``
  stand in its place. Units of ``light`` queues may know better than the log, others know ``deliver_times``, and where
  record and unit contradict each other, it may be ``undecided`` who is right. For what a part is left: ``reasons``,
  of which what brokers ``read_on`` to is one.

Each action goes into a ``draft``, which carries it out on the overlay, and refuses what an apply would (``limits``).
"""

from __future__ import annotations

from storeio.plan.results import GOALS, REPAIR, SALVAGE, Planned
from storeio.planning.node import plan_store
from storeio.planning.selection import Selection

__all__ = ["GOALS", "REPAIR", "SALVAGE", "Planned", "Selection", "plan_store"]
