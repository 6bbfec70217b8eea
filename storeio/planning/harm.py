"""What a plan must not lead to: a start that does more harm than the one before it."""

from __future__ import annotations

from typing import Final

from storeio.paths import COMMITLOG
from storeio.simulate.ends import STARTS
from storeio.simulate.losses import BEFORE, CUTS, DOES_NOT_QUEUE, UNLINKS
from storeio.simulate.predicted import Prediction

OUT_OF_THE_LOG: Final = (UNLINKS, CUTS, BEFORE)


def is_worse(one: Prediction, other: Prediction) -> bool:
    """Tell whether a start does more harm than another: a plan must never lead there.

    A broker that does not start takes nothing from consumers, but for the segments that it unlinks before it ends: a
    start that takes intact messages is worse, any other one is better.
    """
    starts = [found.outcome.outcome == STARTS for found in (one, other)]
    if not starts[0]:
        return starts[1] or _unlinked(one) > _unlinked(other)
    if not starts[1]:
        return _unlinked(one) > _unlinked(other) if _unlinked(other) else _takes(one)
    if _lost(one) > _lost(other) or len(one.emptied) > len(other.emptied):
        return True
    stops = [bool(found.stopped or found.outcome.reason) for found in (one, other)]
    return stops[0] and not stops[1]


def takes_more(one: Prediction, other: Prediction) -> bool:
    """Tell whether a start is worse, or takes more messages out of the log than another that gives up more in all.

    What has left its queue only can be given a unit again.
    """
    if is_worse(one, other):
        return True
    return other.outcome.outcome == STARTS and _given_up(one, *OUT_OF_THE_LOG) > _given_up(other, *OUT_OF_THE_LOG)


def _given_up(found: Prediction, *actions: str) -> int:
    """Return how many messages a start gives up, by some actions only if they are named."""
    losses = found.given_up.losses if found.given_up is not None else ()
    return sum(loss.messages for loss in losses if not actions or loss.action in actions)


def _lost(found: Prediction) -> int:
    """Return how many intact messages consumers never get: those given up, and those that they are led past."""
    got = found.consumers
    return _given_up(found) + (got.missed + got.unreached if got is not None else 0)


def _takes(found: Prediction) -> bool:
    """Tell whether a start takes intact messages from consumers for good.

    One that has no unit before the start is not taken by it, and can be given one again while its number is free.
    """
    given_up, consumers = found.given_up, found.consumers
    if consumers is not None and consumers.missed:
        return True
    return given_up is not None and bool(
        given_up.reissues or any(loss.action != DOES_NOT_QUEUE for loss in given_up.losses)
    )


def _unlinked(found: Prediction) -> int:
    """Return how many segments that hold something are unlinked, by a broker that does not start, too."""
    return sum(path.startswith(f"{COMMITLOG}/") for path in found.emptied)
