"""Where the segments of a log may belong, as far as one may believe what records say of their places."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from storeio.paths import has_usual_name, parse_number

MOST_MISSING: Final = 4_096
"""Missing segments that are made anew: more are no log any more, but two, or a name that means nothing."""


def is_segment(path: str, segment_bytes: int) -> bool:
    """Tell whether a file of the commitlog has the name of a segment.

    One of another name lies across segments, or beside the one whose place it has as well.
    """
    base = parse_number(path.rpartition("/")[2])
    return base is not None and base >= 0 and not base % segment_bytes and has_usual_name(path, base)


def may_belong(base: int, own: int | None, others: Collection[int], segment_bytes: int, *, is_alone: bool) -> bool:
    """Tell whether a segment may belong to the place that its first record names.

    A record whose number is damaged names a place, too: one far from all others, or one that another segment has or
    none adjoins, while the name of the file itself is next to one. Many records in a row are not damaged alike.

    Args:
        base: The place, as the physical offset of its first byte.
        own: What the name of the file says; ``None`` where it says nothing.
        others: Where segments begin that hold records in their places.
        segment_bytes: Length of a segment.
        is_alone: No second record follows that agrees with the first.
    """
    if not others:
        return True
    reach = (len(others) + 1) * segment_bytes
    if not min(others) - reach <= base <= max(others) + reach:
        return False
    if is_alone and own is not None and _adjoins(own, others, segment_bytes):
        return base not in others and _adjoins(base, others, segment_bytes)
    return True


def _adjoins(base: int, others: Collection[int], segment_bytes: int) -> bool:
    return base - segment_bytes in others or base + segment_bytes in others
