"""Salvage: every intact message of a damaged log at its old place, in a log that stock brokers read to its end.

``survey`` gathers what the audit and the queues tell of damage, ``regions`` decides what each damaged stretch still
holds, ``restore`` a single record, ``numbers`` which messages are lost, ``holes`` what is written where they were
(``fillers``), ``node`` does it all on one machine.
"""

from __future__ import annotations

from storeio.verbs import answer_calls

answer_calls(__name__)
