"""Stores of any size as a sound broker would leave them, and what reading them costs.

* ``generate`` makes a store: ``stream`` says what is sent and when, ``encode`` writes the records, ``files`` lays
  them out.
* ``measure`` times ``cases``, ``scaling`` two cores against one, ``memory`` Spark's workers, ``salvage`` damage.
  Against real brokers (``brokers``) are ``recovery``, ``rebuild`` and ``simulate``. ``cores`` and ``pagecache`` are
  what must be alike.
* ``suite`` runs all of them, and ``results`` is what ``RESULTS.md`` is made of.
"""
