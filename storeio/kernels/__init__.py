"""The compiled loops: arrays in, arrays out. Each checks every bound before it reads.

* ``walk`` goes over one split and fills ``tables``: the usual case is a ``chain`` of ``records``, each with a ``head``,
  properties (``tags``) and ``marks``; behind damage ``starts`` and ``search`` find where the next one begins;
  ``spans`` keep what lies between, ``longcrc`` spares work where many heads claim one body. ``staged`` and ``ahead``
  mind the caches.
* What a walk found: ``group`` sorts it by queue, ``glance`` and ``few`` look whether anything is odd.
* Files of units: ``units`` of queues; ``index`` replays an index file, ``index_damage`` a damaged one, ``index_match``
  compares one with keys, ``index_shape`` measures it; ``place`` fills queues and index files anew.
* Simulated brokers: ``passing`` of records, ``pulls`` of consumers.
* Means: ``raw`` loads, ``text`` and hashes, hints on ``memory``.
"""
