"""What of the stores that a salvage reads could not be read, as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storeio.audit import Concluded
from storeio.salvaged import UNREAD
from storeio.scan import changed_since, failed_since


def unread(first: Concluded, others: Sequence[Concluded], looked: Concluded, not_copied: Sequence[str]) -> list[str]:
    """Return sentences on what could not be read: of the store, its donors, and the store with all in its place.

    Links to the store lack what its listing could not tell, so the store's own audit counts.
    """
    found = [_said("", text) for text in (*first.audit.failed, *looked.audit.failed, *not_copied)]
    found += [_said(one.audit.store, text) for one in others for text in one.audit.failed]
    return list(dict.fromkeys(found))


def unread_since(first: Concluded, others: Sequence[Concluded]) -> list[str]:
    """Return sentences on what of remote stores could not be read up to now, or is not what it was when they began."""
    return [*_of_listing(first, ""), *(text for one in others for text in _of_listing(one, one.audit.store))]


def _of_listing(one: Concluded, store: str) -> Iterable[str]:
    listing = one.plan.listing
    return [_said(store, text) for text in (*failed_since(listing), *changed_since(listing))]


def _said(store: str, text: str) -> str:
    return f"{UNREAD}{store}: {text}" if store else f"{UNREAD}{text}"
