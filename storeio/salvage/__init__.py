"""Salvage: every intact message of a damaged log at its old place, in a log that stock brokers read to its end.

``arrange`` puts intact ``pieces`` into their places, from the store itself and from ``donors``; ``survey`` gathers
what the audit and the queues tell of damage: the ``units`` that survived, of which those of misnamed files stand
``shifted``, and ``suspects`` among records: ``strangers``, ``copies``, ``bare`` ones, those ``in_a_row`` and
``at_the_end`` of queues whose numbers do not fit. ``stretches`` tells where the log is damaged, ``regions`` decides
what each of them still holds and ``doubts`` on records that brokers accept. ``restore`` tries ``hypotheses``
(``head_fields``, ``one_byte``, each made of ``tries``) on one record against its ``evidence``; ``times`` bound when
it was stored, by the ``nearest`` records. ``numbers`` and ``missing`` tell which messages are lost, ``traces`` what
else is known of them and ``unnamed`` how many have no name, ``tombstones`` which hole's ``room`` stands for each and
``holes`` what is written there (``fillers``); ``decide`` joins all that, and ``node`` carries it out, of the messages
that are ``chosen``.
"""

from __future__ import annotations

from storeio.verbs import answer_calls

answer_calls(__name__)
