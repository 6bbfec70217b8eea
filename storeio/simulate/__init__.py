"""What a broker of each line does at its next start: pure, from a view of the store to an outcome.

``storeio.simulate(root)`` is the verb, of ``storeio.prediction``; a package hides a function of its name,
so this one answers a call with it.
"""

from __future__ import annotations

from storeio.verbs import answer_calls

answer_calls(__name__)
