"""What a split's records say as a whole: most have nothing odd, and need no second look for anything of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from storeio.kernels import glance as kernel
from storeio.kernels import tables as w
from storeio.walk import Walked


@dataclass(frozen=True, slots=True)
class Glance:
    """Counts of records and keys, bits that any record has, times in ms.

    ``leaps`` is how many records ``marks.outliers`` tells, or leaves out for when they were born. ``one_store_host``
    and ``one_producer``: all records have the same.
    """

    bodies: int
    property_crcs: int
    keys: int  # tags are none
    marks: int
    flags: int
    first_ms: int
    last_ms: int
    leaps: int
    one_store_host: bool
    one_producer: bool


def glance_at(walked: Walked) -> Glance:
    """Return what a split's records say as a whole; there is one."""
    said = np.zeros(kernel.PLACES, np.int64)
    records = walked.records
    kernel.glance(
        records[w.R_BODY_BYTES], records[w.R_MARKS], records[w.R_FLAG], records[w.R_STORE_MS], records[w.R_STORE_HOST],
        records[w.R_BORN_HOST], walked.keys[2], said,
    )  # fmt: skip
    found = said.tolist()
    return Glance(
        found[kernel.BODIES], found[kernel.PROPERTY_CRCS], found[kernel.KEYS], found[kernel.MARKS],
        found[kernel.FLAGS], found[kernel.FIRST_MS], found[kernel.LAST_MS], found[kernel.LEAPS],
        not found[kernel.STORE_HOSTS], not found[kernel.BORN_HOSTS],
    )  # fmt: skip
