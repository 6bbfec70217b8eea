"""Which broker settings there are: what they mean here, which of them a prediction follows, and names of none.

``conf/store.toml`` has those that matter to a store, ``conf/names.toml`` the names of all; both travel in the package.
"""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

from storeio.paths import COMMITLOG
from storeio.results import Setting

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

KNOWN_BROKERS: Final = "4.9.0 to 5.5.1"
LONGEST: Final = 200  # a name that is longer resembles none, and to compare it takes long
LEAST_LIKE: Final = 0.8


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("storeio") / "conf" / name).read_text(encoding="utf-8"))


@functools.cache
def declared() -> Mapping[str, Mapping[str, Any]]:
    """Return the settings of ``conf/store.toml`` by name, each with what that file says of it."""
    return _table("store.toml")


def default(name: str) -> str:
    """Return a broker's default for a setting, spelled as in broker.conf."""
    value = declared()[name]["default"]
    return str(value).lower() if isinstance(value, bool) else str(value)


@functools.cache
def broker_names() -> frozenset[str]:
    """Return all names that brokers read from a broker.conf."""
    return frozenset(name for names in _table("names.toml").values() for name in names)


def near(name: str, known: Iterable[str], least: float = LEAST_LIKE) -> str | None:
    """Return the name that is most like another, whatever its case; None if none is."""
    folded = {each.lower(): each for each in sorted(known)}
    found = difflib.get_close_matches(name.lower(), folded, 1, least) if len(name) <= LONGEST else []
    return folded[found[0]] if found else None


def log_elsewhere(root: str, settings: Iterable[Setting]) -> str:
    """Return where the commitlog is set to lie, if that is not below the store root, as usual, where that is now or
    where ``storePathRootDir`` says that it was; else nothing."""
    values = {setting.name: setting.value.strip().rstrip("/") for setting in settings}
    place = values.get("storePathCommitLog", "")
    usual = {os.path.realpath(f"{root}/{COMMITLOG}"), f"{values.get('storePathRootDir') or root}/{COMMITLOG}"}
    return "" if not place or place in usual or os.path.realpath(place) in usual else place


def not_read(place: str) -> str:
    """Return what is said of a commitlog that is set to lie elsewhere."""
    return f"storePathCommitLog={place}: only {COMMITLOG}/ below the root was read"


def not_followed(settings: Iterable[Setting]) -> list[str]:
    """Return the settings with which a start does something else than what is simulated, each with what it changes."""
    found = []
    for setting in settings:
        row = declared().get(setting.name, {})
        followed = [value.lower() for value in row.get("followed", ())]
        if followed and setting.value.strip().lower() not in followed:
            found.append(f"{setting.name}={setting.value}: not modelled; {row['means']}")
    return found
