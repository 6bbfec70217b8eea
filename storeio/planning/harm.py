"""What a plan must not lead to: a start that does more harm than the one before it."""

from __future__ import annotations

from typing import Final

from storeio.simulate.ends import STARTS
from storeio.simulate.losses import BEFORE, CUTS, UNLINKS
from storeio.simulate.predicted import Prediction

OUT_OF_THE_LOG: Final = (UNLINKS, CUTS, BEFORE)


def is_worse(one: Prediction, other: Prediction) -> bool:
    """Tell whether a start does more harm than another: a plan must never lead there."""
    ends = [found.outcome.outcome != STARTS for found in (one, other)]
    if ends[0] or ends[1]:
        return ends[0] and not ends[1]
    if _given_up(one) > _given_up(other) or len(one.emptied) > len(other.emptied):
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
