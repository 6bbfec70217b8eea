"""What a start makes of a store's timer files, by the settings and the files: how long those of the timer log are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from storeio.paths import parse_number
from storeio.scan import Listing
from storeio.simulate.metadata import TIMER_LOG, TIMER_LOG_BYTES, TIMER_LOG_SETTING, Switches


def switches_of(listing: Listing, given: Mapping[str, str], *, follows: bool) -> Switches:
    """Return what of tables and timers matters to a start, which they refuse only if it ``follows`` them."""
    return Switches(given.get("timerWheelEnable", "true") == "true", follows, timer_log_bytes(listing, given))


def timer_log_bytes(listing: Listing, given: Mapping[str, str]) -> int | None:
    """Return the length of a timer log file in bytes; None where files have another length than is usual, and no two
    of them the same, so that nobody can say whether that is damage."""
    if TIMER_LOG_SETTING in given:
        return int(given[TIMER_LOG_SETTING])
    files = (f for f in listing.files if f.path.startswith(f"{TIMER_LOG}/") and not (f.is_dir or f.special))
    lengths = Counter(f.size for f in files if f.size and parse_number(f.path.rpartition("/")[2]) is not None)
    if not lengths or TIMER_LOG_BYTES in lengths:
        return TIMER_LOG_BYTES
    length, count = lengths.most_common(1)[0]
    return length if count > 1 else None
