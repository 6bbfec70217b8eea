"""Salvage: every intact message of a damaged log at its old place, in a log that stock brokers read to its end.

``node`` has the order; what it calls, in that order:

* ``readable`` links or copies what can be read of a store; ``unread`` tells the rest.
* ``arrange`` puts intact ``pieces`` into their places: ``strays`` beside the segments, what ``false_ends``
  hide, ``misplaced`` and ``exchanged`` records, and what ``donors`` hold, ``differing`` records included.
* ``survey`` gathers what the audit and the queues tell of damage: the ``units`` that survived, of which those of
  misnamed files stand ``shifted`` and some point ``behind`` the log's end, and ``suspects`` among records:
  ``strangers``, ``copies``, ``bare`` ones, those ``in_a_row`` and ``at_the_end`` of queues whose numbers do not fit,
  and those that lack a key which a unit ``chained`` in the index names.
* ``decide`` joins what follows. ``stretches`` tells where the log is damaged, ``regions`` what each of them still
  holds, in the queue that lacks it (``other_queue``), and whether what is ``going_on`` behind it was no record,
  ``doubts`` weighs records that brokers accept, with the ``support`` of their neighbours, inner ``batches`` by what
  they say twice, ``key_words`` by what the index says, and ``names`` that are no text. ``restore`` tries
  ``hypotheses`` (``head_fields``, ``property_fields``, ``one_byte``, each made of ``tries``) on one record against its
  ``evidence``; ``times`` bound when it was stored, by the ``nearest`` records. ``numbers`` and ``missing`` tell which
  messages are lost, ``tombstones`` which hole's ``room`` stands for each, ``holes`` what is written there
  (``fillers``).
* ``writing`` copies the log so decided and all else. ``telling`` makes the report: ``traces`` are what else is known
  of lost messages, ``unnamed`` how many have no name, ``topics`` which of them are deleted. Of a choice (``chosen``)
  the rest becomes fillers.
"""

from __future__ import annotations

from storeio.verbs import answer_calls

answer_calls(__name__)
