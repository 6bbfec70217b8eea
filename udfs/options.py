"""What a read of the ``rocketmq_store`` data source may be told, checked, and the store that it is of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from storeio import audit
from storeio.config import given_settings
from storeio.errors import UnreadableError, UsageError
from storeio.paths import BATCHQUEUE, COMMITLOG, CONSUMEQUEUE, INDEX
from storeio.scan import failed_since, require_listed
from storeio.splits import DEFAULT_SPLIT_BYTES
from storeio.uris import place_of
from udfs.conditions import Condition, parse
from udfs.records import BODY
from udfs.schemas import BATCH_UNITS, BODY_FIELD, INDEX_UNITS, KINDS, RECORDS, SCHEMAS, UNITS

NAME: Final = "rocketmq_store"
FILE_KINDS: Final = {RECORDS: COMMITLOG, UNITS: CONSUMEQUEUE, BATCH_UNITS: BATCHQUEUE, INDEX_UNITS: INDEX}


@dataclass(frozen=True)
class Options:
    """The options of a read, checked.

    Attributes:
        path: The store root.
        what: ``records`` (default), ``units``, ``batch_units`` or ``index``.
        columns: Names parted by commas; without it all but the body.
        split_bytes: Bytes of files that one task reads, by default 64 MiB.
        body: ``true`` adds the stored bodies to the records.
        stale: ``true`` adds intact records of another place or time, which are not valid.
        partial: ``true`` leaves out what the system does not list, which else is an error.
        settings: Broker settings, ``name=value``, one a line, e.g. ``messageDelayLevel=1s 5s``.
        begins: What ``read_records`` found out; not for people.
        pushed: What a query wants, from ``udfs.pushdown``; not for people.
    """

    path: str
    what: str = RECORDS
    split_bytes: int = DEFAULT_SPLIT_BYTES
    body: bool = False
    stale: bool = False
    partial: bool = False
    settings: str = ""
    begins: str = ""
    pushed: str = ""
    columns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """Return the options as given to Spark.

        Raises:
            UsageError: The path is missing, an option is unknown or has a bad value.
        """
        known = [field.name for field in fields(cls)]
        unknown = [name for name in given if name.lower() not in known]
        if unknown or not given.get("path"):
            raise UsageError(f"{NAME}: unknown option {unknown[0]}" if unknown else f"{NAME}: no path given")
        what, size = given.get("what", RECORDS), given.get("split_bytes", str(DEFAULT_SPLIT_BYTES))
        if what not in KINDS:
            raise UsageError(f"{NAME}: what={what}: expected one of {', '.join(KINDS)}")
        if not size.isdecimal() or int(size) == 0:
            raise UsageError(f"{NAME}: split_bytes={size}: expected a number of bytes")
        body, stale, partial = (_flag(name, given.get(name, "false")) for name in ("body", "stale", "partial"))
        settings, begins, pushed = (given.get(name, "") for name in ("settings", "begins", "pushed"))
        columns = tuple(name.strip() for name in given.get("columns", "").split(",") if name.strip())
        options = cls(place_of(given["path"]), what, int(size), body, stale, partial, settings, begins, pushed, columns)
        unknown = [name for name in columns if name not in options.known().names or columns.count(name) > 1]
        if unknown:
            raise UsageError(f"{NAME}: columns: {what} have no {unknown[0]}, or it is named twice")
        return options

    def known(self) -> StructType:
        """Return all columns that there are."""
        schema = SCHEMAS[self.what]
        return StructType([*schema.fields, BODY_FIELD]) if self.what == RECORDS else schema

    def schema(self) -> StructType:
        """Return the columns asked for."""
        if not self.columns:
            return StructType([field for field in self.known() if field.name != BODY or self.body])
        names = (*self.columns, BODY) if self.body and BODY not in self.columns else self.columns
        return StructType([self.known()[name] for name in names])

    def conditions(self) -> tuple[Condition, ...]:
        """Return what wanted rows meet.

        Raises:
            UsageError: ``pushed`` is no list of conditions on columns that there are.
        """
        return parse(self.pushed, {field.name: field.type for field in to_arrow_schema(self.known())})

    def plan(self) -> audit.AuditPlan:
        """Return listing, settings and splits of the store."""
        given = given_settings(sets=self.settings.splitlines())
        plan = audit.prepare(self.path, given=given, split_bytes=self.split_bytes)
        for text in failed_since(plan.listing):
            raise UnreadableError(text)
        if not self.partial:
            require_listed(plan.listing, [FILE_KINDS[self.what]])
        return plan


def _flag(name: str, value: str) -> bool:
    if (word := value.lower()) not in ("true", "false"):
        raise UsageError(f"{NAME}: {name}={value}: expected true or false")
    return word == "true"
