"""Entry points for spark-submit: parse arguments, start a session, wire, write the result."""

import importlib.util
import sys

# ``python -m jobs.audit_store`` where only the core is installed: one line, before any job imports Spark.
if sys.argv[:1] == ["-m"] and importlib.util.find_spec("pyspark") is None:
    print("storeio: the jobs need Spark: pip install 'storeio[spark]'", file=sys.stderr)
    sys.exit(8)
