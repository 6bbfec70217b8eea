"""What a broker of each line does at its next start: pure, from a view of the store to an outcome.

``outcome`` is one start from end to end, on a ``disk`` that lies over the files; ``predicted`` holds it with all that
else is said of it. What differs between broker lines is a row of ``rules``. Modules follow the broker's own classes:

* Load: ``metadata`` goes through ``tables`` of ``config/``, read once for all lines (``memo``), and the timers' files;
  ``broker`` is the store in memory, of ``mapped`` files: log, ``topics`` with their queues (``consumequeue``, its
  ``unit_search``, with a ``queueext``, or ``batchqueue``; ``queue_types`` tells which), ``index``, checkpoint.
* ``recover`` scans the log from where it thinks best, ``message`` checks a record and makes a request of it, ``reput``
  dispatches from there. ``logscan`` passes ordinary records at the speed of the compiled walk: those that are
  dispatched in ``blocks``, others by ``skipping``.
* ``ends`` are those of a start that fails, ``refused`` is what such a one leaves behind.
* After: ``pull`` consumes every queue, ``buffers`` are the bytes that it gets for a unit, ``unseen`` what it passes
  over. ``losses`` are messages that nobody gets any more, told by ``units_there`` and numbers that were ``replaced``;
  ``usual`` queues, whose units are all there, are told many at once. ``keys_lost`` counts those of deleted index files.
* ``retention`` goes on with the broker's own cleaning, by its ``clock``, and looks at the ``progress`` of consumers.

``java`` is arithmetic. ``storeio.simulate(root)`` is the verb, of ``storeio.predict.start``; a package hides a
function of its name, so this one answers a call with it.
"""

from __future__ import annotations

from storeio.verbs import answer_calls

answer_calls(__name__)
