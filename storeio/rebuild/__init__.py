"""Rebuild: queues, ext files, indexes and checkpoint from the commitlog, into a new directory.

``derive`` turns a split into packed units and keys, ``placement`` decides at which number each unit
stands, ``layout`` and ``index`` into which bytes of which file that turns, ``node`` does it all on one
machine. On a sound store the result is what the broker wrote.

``storeio.rebuild(root, into)`` is the verb, of ``storeio.rebuild.node``; a package hides a function of its name,
so this one answers a call with it.
"""

from __future__ import annotations

from storeio.verbs import answer_calls

answer_calls(__name__)
