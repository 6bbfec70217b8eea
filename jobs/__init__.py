"""Entry points for spark-submit: parse arguments, start a session, wire, write the result.

A job is a module that ``README.md`` names, ``demo`` and ``resolve_jars`` besides: ``audit_store`` with
``maintain_tables`` and ``collect_reports``, ``rebuild_queues``, ``salvage_store``, ``plan_repair``, ``apply_repair``,
``profile_store``.

* ``common`` has what each shares: arguments, the session, exit codes. ``java`` says whether there is one to run it,
  ``gateway`` starts it, ``executors`` waits for those of a cluster; ``lazy_session`` is a session only if it is
  needed.
* ``stores`` has the options of those that read stores, ``calls`` one call over many of them and its reports, ``page``
  the page of an audit, ``profiles`` the sums of a profile.
* ``declared`` says what tables there are besides an audit's, ``tables`` writes and reads them so that a run is there
  as a whole or not at all, ``commits`` tries again, ``local_delta`` does without Spark, and ``table_errors`` has one
  line for all that goes wrong. ``history`` and ``verdicts`` are of the tables that incremental audits go on with.
"""

import importlib.util
import sys

# As ``python -m jobs.audit_store``: before any job imports Spark, which takes seconds.
if sys.argv[:1] == ["-m"]:
    if importlib.util.find_spec("pyspark") is None:
        print("storeio: the jobs need Spark: pip install 'storeio[spark]'", file=sys.stderr)
        sys.exit(8)
    from storeio.process import stop_at_once

    stop_at_once()
