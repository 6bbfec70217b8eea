"""Rebuild: queues, ext files, indexes and checkpoint from the commitlog, into a new directory.

``node`` does it all on one machine, ``udfs.rebuild`` on many. ``tally`` decides before and tells after: ``evidence``
is what the store's own files say (``light`` of light queues). ``derive`` turns a split into packed units
(``stretches``) and keys, ``placement`` decides at which number each unit stands, ``layout`` into which bytes of which
file that turns, with ``old`` units in gaps; ``dead`` queues have no message left and keep their last file.
``queues``, ``index`` and ``checkpoint`` write them. For many workers ``spill`` keeps what each split holds, ``shares``
decides what is to be written, ``cuts`` where index files begin, ``parcels`` divides the files, and each parcel is one
worker's to ``lay``. On a sound store the result is what the broker wrote.

``storeio.rebuild(root, into)`` is the verb, of ``storeio.rebuild.node``; a package hides a function of its name, so
this one answers a call with it.
"""

from __future__ import annotations

from storeio.verbs import answer_calls

answer_calls(__name__)
