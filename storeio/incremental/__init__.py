"""Audits that take over what earlier ones said of parts that have not changed since.

``store_run`` is one store's audit: a ``choice`` of what to look at, by the ``verdicts`` (texts by ``codec``) that were
kept and the ``evidence`` on which they rest, which ``watched`` plans collect; ``telling`` is what records tell of
queues. ``history`` tells when each finding came and went.
"""
