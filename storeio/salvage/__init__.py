"""Salvage: every intact message of a damaged log at its old place, in a log that stock brokers read to its end.

``arrange`` puts intact ``pieces`` into their places, from the store itself and from ``donors``; ``survey`` gathers what
the audit and the queues tell of damage; ``regions`` decides what each damaged stretch still holds and ``doubts`` on
records that brokers accept; ``restore`` tries ``hypotheses`` on one record against its ``evidence``, ``times`` bound
when it was stored. ``numbers`` and ``missing`` tell which messages are lost, ``holes`` what is written where they were
(``fillers``), ``decide`` joins all that, and ``node`` carries it out.
"""

from __future__ import annotations

from storeio.verbs import answer_calls

answer_calls(__name__)
