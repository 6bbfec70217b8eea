"""The compiled look at all records of a split: what numpy says of the same columns, one question after the other."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from storeio.checks.glance import Glance, glance_at
from storeio.checks.marks import outliers
from storeio.kernels import tables as w
from storeio.kernels.tags import KEYS, TAGS, UNIQUE_KEY


def slowly(walked: SimpleNamespace) -> Glance:
    """Return the same, asked of numpy."""
    rows = walked.records
    marks, times = rows[w.R_MARKS], rows[w.R_STORE_MS]
    return Glance(
        int(np.count_nonzero(rows[w.R_BODY_BYTES] > 0)),
        int(np.count_nonzero(marks & w.MARK_HAS_PROPERTY_CRC)),
        int(np.count_nonzero(walked.keys[2] != TAGS)),
        int(np.bitwise_or.reduce(marks)),
        int(np.bitwise_or.reduce(rows[w.R_FLAG])),
        int(times.min()),
        int(times.max()),
        len(outliers(times, np.full(len(times), -(1 << 63)))),
        len(set(rows[w.R_STORE_HOST].tolist())) == 1,
        len(set(rows[w.R_BORN_HOST].tolist())) == 1,
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 64, 1000])
@pytest.mark.parametrize("most", [1, 2, 3, 1 << 62])
def test_a_glance_is_what_all_columns_say(count: int, most: int) -> None:
    random = np.random.default_rng(count)
    for _ in range(20):
        # Rows of a larger table, as those of a walk are; negative numbers as damage leaves them.
        table = random.integers(-most, most, (w.RECORD_ROWS, count + 5))
        keys = random.choice([TAGS, KEYS, UNIQUE_KEY], (3, int(random.integers(0, 9))))
        walked = SimpleNamespace(records=table[:, :count], keys=keys)
        assert glance_at(walked) == slowly(walked)  # type: ignore[arg-type]
