"""An Airflow 3 DAG: the nightly audit, and the maintenance of its tables every Sunday. Copy it into the DAGs folder."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta, timezone

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

HOME = "/opt/storeio"
STORES = ["/data/broker-a/store", "/data/broker-b/store"]
TABLES = "/var/lib/storeio/tables"

PYTHON = f"{HOME}/.venv/bin/python"
AUDIT = [PYTHON, "-m", "jobs.audit_store", "--store", *STORES, "--tables", TABLES, "--incremental"]
AUDIT += ["--recheck", "1/30", "--time-budget", "2h", "--quiet"]
MAINTAIN = [PYTHON, "-m", "jobs.maintain_tables", "--tables", TABLES, "--keep-days", "90"]

# A task fails with any exit code other than 0, which is what an alert looks at: 4 damage, 8 time ran out or unreadable.
# No retries: what there was no time for the next night begins with.
ARGUMENTS = {"retries": 0, "execution_timeout": timedelta(hours=4)}
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)

with DAG("storeio_audit", schedule="30 2 * * *", start_date=BEGIN, catchup=False, max_active_runs=1) as audit:
    BashOperator(task_id="audit", bash_command=shlex.join(AUDIT), cwd=HOME, **ARGUMENTS)

with DAG("storeio_maintain", schedule="30 5 * * 0", start_date=BEGIN, catchup=False, max_active_runs=1) as maintain:
    BashOperator(task_id="maintain", bash_command=shlex.join(MAINTAIN), cwd=HOME, **ARGUMENTS)
