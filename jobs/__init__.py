"""Entry points for spark-submit: parse arguments, start a session, wire, write the result."""

import importlib.util
import sys

# As ``python -m jobs.audit_store``: before any job imports Spark, which takes seconds.
if sys.argv[:1] == ["-m"]:
    if importlib.util.find_spec("pyspark") is None:
        print("storeio: the jobs need Spark: pip install 'storeio[spark]'", file=sys.stderr)
        sys.exit(8)
    from storeio.process import stop_at_once

    stop_at_once()
