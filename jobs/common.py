"""What every job shares: the Spark session, the arguments, the exit codes.

A session starts from local files only: the Delta jars that set-up resolved, and ``conf/spark.conf``. It writes nothing
into the current directory, the home directory or Spark's own.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.executors import ClusterError, wait_for_executors
from jobs.gateway import launch
from jobs.resolve_jars import delta_jars
from jobs.table_errors import tables_at
from storeio.commands.console import complain, explain
from storeio.errors import UsageError
from storeio.process import end_undisturbed, hold_streams, stop_alike, stop_when_asked
from storeio.results import EXIT_CANCELLED, EXIT_FAILED, EXIT_USAGE
from udfs.checks import reason

# fsck's bits, as for the command line
COULD_NOT, WRONG_USE, CANCELLED = EXIT_FAILED, EXIT_USAGE, EXIT_CANCELLED

Settings = dict[str, str]

# A session on this machine alone must not depend on its host name and network.
LOCAL: Settings = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}

EXECUTOR = "org.apache.spark.executor.Executor"  # says with stacks what is the job's error, too

# What --py-files brings is shipped to the workers, but Spark has them look only into files with names that it knows.
WHEEL = ".whl"


def parse_conf(text: str) -> Settings:
    """Return the settings in a file of Spark's properties format: key, blank or ``=``, value; ``#`` comments.

    Raises:
        UsageError: A line has a key without a value, or a key comes twice.
    """
    settings: Settings = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, *rest = re.split(r"\s*=\s*|\s+", stripped, maxsplit=1)
        if not rest or not rest[0]:
            raise UsageError(f"spark.conf line {number}: {key} has no value")
        if key in settings:
            raise UsageError(f"spark.conf line {number}: {key} is set twice")
        settings[key] = rest[0]
    return settings


def conf_text(name: str) -> str:
    """Return the text of a file in ``conf/``, from a checkout, an install or a zip."""
    return (resources.files("storeio") / "conf" / name).read_text(encoding="utf-8")


def build_session(app_name: str, *, master: str | None = None, extra: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session of this process; a second call returns the same one with ``extra`` applied.

    Args:
        app_name: Shown in Spark's own listings.
        master: Where to run, ``local[*]`` if not given. What spark-submit was told wins.
        extra: Settings over ``conf/spark.conf``. What spark-submit was told wins over both.

    Raises:
        MissingJarsError: Set-up has not resolved the Delta jars.
        NoJavaError: Java is missing or too old; holds the line that names the package.
        ClusterError: The master is not reached.
    """
    jars = delta_jars()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    submitted = _submitted_settings()
    wanted = {"spark.master": master or "local[*]", **parse_conf(conf_text("spark.conf")), **(extra or {}), **submitted}
    if wanted["spark.master"].startswith("local"):
        wanted = {**LOCAL, **wanted}
    own_delta = "delta-spark_" in wanted.get("spark.jars", "")  # spark-submit --packages or --jars brought it
    if not own_delta:
        wanted["spark.jars"] = ",".join(filter(None, [wanted.get("spark.jars"), *(jar.as_uri() for jar in jars)]))
    wanted = {**_scratch_settings(), **wanted}
    SparkContext.PACKAGE_EXTENSIONS = (".zip", ".egg", ".jar", WHEEL)
    if not _is_submitted():
        launch(wanted)
    elif not own_delta:
        _add_to_running_jvm(jars)
    builder = SparkSession.builder.appName(app_name)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    if wanted["spark.master"].startswith("local"):
        session = builder.getOrCreate()
    else:
        try:
            session = builder.getOrCreate()
        except (Py4JError, PySparkException) as error:
            raise ClusterError(f"{wanted['spark.master']}: no session; is a master there? {reason(error)}") from error
        wait_for_executors(session.sparkContext)
    stop_alike()
    return session


def _is_submitted() -> bool:
    """Tell whether spark-submit started this process, so that its JVM runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted_settings() -> Settings:
    """Return what spark-submit was given, defaults file included; nothing where we start the JVM ourselves."""
    if not _is_submitted():
        return {}
    SparkContext._ensure_initialized()  # connects to the JVM that spark-submit runs in
    settings = dict(SparkConf().getAll())
    jvm = SparkContext._jvm
    if jvm is not None and "spark.log.level" not in settings:
        # Before the context starts, which is what writes a hundred lines; our log4j2.properties came too late here.
        # Spark sets its levels when it first logs, which would undo ours: have it do so now.
        getattr(getattr(jvm.org.apache.spark.util, "Utils$"), "MODULE$").initializeLogIfNecessary(False)
        log4j = jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setRootLevel(log4j.Level.ERROR)
        log4j.core.config.Configurator.setLevel(EXECUTOR, log4j.Level.OFF)
    return settings


def _add_to_running_jvm(jars: list[Path]) -> None:
    """Make the jars known to a JVM that spark-submit started; ``spark.jars`` then only reaches the executors."""
    jvm = SparkContext._jvm
    assert jvm is not None  # _submitted_settings has connected
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(jvm.java.net.URI(jar.as_uri()).toURL())


@functools.cache
def _scratch_settings() -> Settings:
    """Return settings that keep all that Spark and Hive write in one directory, removed at exit."""
    scratch = Path(tempfile.mkdtemp(prefix="storeio-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    logging = scratch / "log4j2.properties"
    logging.write_text(conf_text("log4j2.properties"), encoding="utf-8")
    return {
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.driver.extraJavaOptions": (
            f'-Dderby.system.home="{scratch}" -Dlog4j2.configurationFile={logging.as_uri()}'
        ),
    }


def named(text: str) -> str:
    """Return a name, a path or another text as it is.

    Raises:
        ArgumentTypeError: It is empty, as that of a shell's variable that is not set.
    """
    if not text:
        raise argparse.ArgumentTypeError("is empty; is a variable not set?")
    return text


class JobParser(argparse.ArgumentParser):
    """A parser whose exit code for wrong use is ours, 16, and not argparse's 2, which would read as a bit."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with 16."""
        self.print_usage(sys.stderr)
        self.exit(WRONG_USE, f"{self.prog}: error: {message}\n")

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an option, whose value is no empty text if nothing else is said of it."""
        if options.get("action") in (None, "append", "extend"):
            options.setdefault("type", named)
        return super().add_argument(*names, **options)

    def add_tables(self, note: str = "; created if need be", *, required: bool = True) -> None:
        """Add the option that says where the tables are."""
        text = f"directory of the Delta tables{note}"
        self.add_argument("--tables", metavar="URI", type=tables_at, required=required, help=text)


def job_parser(name: str, description: str) -> JobParser:
    """Return a parser with the options that all jobs have: stores, tables, broker settings, report."""
    parser = JobParser(prog=name, description=description, allow_abbrev=False)
    add = parser.add_argument
    add("--store", dest="stores", metavar="URI", nargs="+", action="extend", required=True, help="store roots")
    parser.add_tables()
    add("--run-id", metavar="ID", help="name of this run in the tables (default: made from time and chance)")
    add("--conf", metavar="FILE", help="broker.conf of the stores")
    add("--set", dest="settings", metavar="KEY=VALUE", action="append", default=[], help="one broker setting; repeat")
    add("--json", metavar="FILE", help="write the report as JSON; - is standard output")
    add("--quiet", action="store_true", help="no progress, of the report at most one line a store")
    add("--master", metavar="URL", help="where to run, unless spark-submit says so (default: local[*])")
    return parser


def run_job(main: Callable[[], int]) -> NoReturn:
    """Exit with what ``main`` returns; errors raised on purpose become one line and an exit code."""
    hold_streams()
    stop_when_asked()
    logging.getLogger().addFilter(_is_news)
    try:
        code = main()
    except KeyboardInterrupt:
        complain("cancelled")
        code = CANCELLED
    except Exception as error:  # whatever it is, its exit code must not read as one of ours
        code = explain(error)
    end_undisturbed()
    _end_quietly()
    sys.exit(code)


def _is_news(record: logging.LogRecord) -> bool:
    """Tell whether a line of a log is none of py4j's tracebacks, of what it raises, too, or of being stopped."""
    raised = record.exc_info[0] if record.exc_info else None
    return raised is None or not issubclass(raised, KeyboardInterrupt | Py4JError)


def _end_quietly() -> None:
    """Have the JVM print nothing more, after all that there was to say.

    It closes the sockets of Python workers before it ends them. A worker that is quick enough to notice prints the
    traceback of a broken pipe.
    """
    if SparkContext._jvm is not None:
        with contextlib.suppress(Py4JError, OSError):
            sys.stderr.flush()
            SparkContext._jvm.java.lang.System.err.close()
