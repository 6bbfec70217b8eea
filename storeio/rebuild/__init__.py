"""Rebuild: queues, ext files, indexes and checkpoint from the commitlog, into a new directory.

``derive`` turns a split into packed units and keys, ``placement`` decides at which number each unit
stands, ``queues`` and ``index`` lay them into files. On a sound store the result is what the broker wrote.
"""

from __future__ import annotations

from storeio.rebuild.node import rebuild
from storeio.rebuild.results import QueueBuilt, Rebuilt

__all__ = ["QueueBuilt", "Rebuilt", "rebuild"]
