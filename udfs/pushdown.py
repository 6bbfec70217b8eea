"""Columns and conditions of a query brought to the data source, which Spark 4.2 itself does not do, or not rightly.

Spark tells a Python source no columns. Its ``pushFilters`` it calls, but keeps the answer with the relation and not
with the query: a data frame that is read again without the filter, or twice in one query with different ones, gets
the rows of the last (``tests/udfs/test_pushdown_spark.py`` shows it). So the source has no ``pushFilters``. A rule of
the optimizer, ``StorePushDown.java``, gives each scan of each query its own columns and conditions instead, as an
option.

Without the rule every query is still right: then all columns are built and all rows cross to the JVM.
"""

from __future__ import annotations

import warnings
from importlib import resources
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

RULE: Final = "storeio.StorePushDown"
OPTION: Final = "pushed"


def install(spark: SparkSession, source: str) -> bool:
    """Give a session the rule for scans of ``source``; again is harmless.

    Returns:
        Whether the session has the rule. One of Spark Connect has no JVM here to put it into.
    """
    session, jvm = getattr(spark, "_jsparkSession", None), getattr(spark, "_jvm", None)
    if session is None or jvm is None:
        return False
    gateway = spark.sparkContext._gateway
    assert gateway is not None  # there is a JVM
    methods = session.experimental()
    rules = methods.extraOptimizations()
    if any(rules.apply(n).getClass().getName() == RULE for n in range(rules.size())):
        return True
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook((resources.files("udfs") / "StorePushDown.java").read_text(encoding="utf-8"))
        words = gateway.new_array(jvm.java.lang.Object, 2)
        words[0], words[1] = source, OPTION
        rule = compiler.getClassLoader().loadClass(RULE).getConstructors()[0].newInstance(words)
    except Py4JError as error:
        said = str(getattr(error, "java_exception", error)).splitlines()[0]
        warnings.warn(
            f"{source}: columns and filters are not pushed down, queries only take longer: {said}", stacklevel=3
        )
        return False
    getattr(methods, "extraOptimizations_$eq")(rules.appended(rule))
    return True
