"""Roots as people write them: a local path, or a URI that ``storeio.remote`` opens. Text in, text out.

Whatever is printed, logged or kept in a table goes through ``shown`` first: a URI may hold a password or a key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from storeio.errors import UsageError

FILE: Final = "file"
HIDDEN: Final = "***"
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_EMBEDDED: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"]*")
# Of options only these are ever shown: what is not known to be harmless may be a secret.
HARMLESS: Final = frozenset(
    {
        "allow_bucket_creation", "allow_bucket_deletion", "anonymous", "connect_timeout", "endpoint_override",
        "force_virtual_addressing", "project_id", "region", "replication", "request_timeout", "retries",
        "retry_limit_seconds", "scheme", "tls_ca_file_path", "user",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI in its parts, decoded. ``path`` begins with a slash or is empty, and does not end with one."""

    scheme: str
    user: str
    password: str
    host: str
    path: str
    options: dict[str, str] = field(default_factory=dict)


def is_remote(root: str) -> bool:
    """Tell whether a root is a URI of something else than a local file."""
    match = _SCHEME.match(root)
    return match is not None and match[1].lower() != FILE


def place_of(root: str) -> str:
    """Return the local path of a ``file:`` URI, anything else as it is.

    Raises:
        UsageError: It names another machine, or has more than a path; or no path can be it.
    """
    if "\0" in root:
        raise UsageError(f"{root!r}: no path holds a NUL")
    if not root.lower().startswith("file:"):
        return root
    parts = urlsplit(root)
    if parts.netloc not in ("", "localhost"):
        raise UsageError(f"{root}: names the machine {parts.netloc}; file:///PATH is needed")
    if parts.query or parts.fragment or root.endswith(("?", "#")):
        raise UsageError(f"{root}: a '?' or '#' in a path is written %3F or %23")
    return unquote(parts.path, errors="surrogateescape")


def named(root: str) -> str:
    """Return how reports name a store: a URI without its secrets, a local path without ``file://`` and a last slash."""
    try:
        place = place_of(root)
    except UsageError:
        return shown(root)
    if is_remote(place) or not place:
        return shown(place)
    names = "/".join(name for name in place.split("/") if name not in ("", "."))
    return f"/{names}" if place.startswith("/") else names or "."


def refuse_remote(root: str, what: str) -> str:
    """Return the local path of what must be local.

    Raises:
        UsageError: It is not.
    """
    if is_remote(root):
        raise UsageError(f"{shown(root)}: {what}")
    return place_of(root)


def parsed(root: str) -> Uri:
    """Return the parts of a URI.

    Raises:
        UsageError: It is none, lacks a host or bucket, or has an option twice or without a value.
    """
    try:
        parts = urlsplit(root)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise UsageError(f"{shown(root)}: is no URI; options are written ?name=value&name=value") from None
    credentials, _, host = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    if "@" in parts.path and ":" in parts.netloc and not parts.netloc.rpartition(":")[2].isdecimal():
        raise UsageError(f"{shown(root)}: credentials are given as KEY:SECRET@, with each / in them written %2F")
    if parts.fragment:
        raise UsageError(f"{shown(root)}: a '#' in a path is written %23")
    if len(dict(options)) != len(options):
        raise UsageError(f"{shown(root)}: an option is given twice")
    path = re.sub("/+", "/", unquote(parts.path)).rstrip("/")
    if any(part in (".", "..") for part in path.split("/")):
        raise UsageError(f"{shown(root)}: '.' and '..' are no names of directories there")
    return Uri(parts.scheme.lower(), unquote(user), unquote(password), host, path, dict(options))


def below(root: str, name: str) -> str:
    """Return the URI of something below a URI, options kept; ``name`` is plain text and may hold slashes."""
    place, mark, query = root.partition("?")
    return f"{place.rstrip('/')}/{quote(name)}{mark}{query}"


def beside(root: str, suffix: str) -> str:
    """Return a URI with something added to its last name, options kept."""
    place, mark, query = root.partition("?")
    return f"{place.rstrip('/')}{suffix}{mark}{query}"


def sibling(root: str, name: str) -> str:
    """Return the URI of what has another last name in the same directory, options kept; ``name`` is plain text."""
    place, mark, query = root.partition("?")
    return f"{place.rstrip('/').rpartition('/')[0]}/{quote(name)}{mark}{query}"


def name_of(root: str) -> str:
    """Return the last name of a root, empty if it has none."""
    path = parsed(root).path if is_remote(root) else root
    return path.rstrip("/").rpartition("/")[2]


def is_below(uri: str, root: str) -> bool:
    """Tell whether a URI is another or lies below it."""
    one, other = parsed(uri), parsed(root)
    same = (one.scheme, one.host) == (other.scheme, other.host)
    return same and f"{one.path}/".startswith(f"{other.path}/")


def shown(text: str) -> str:
    """Return a text with the credentials of the URIs in it hidden; a text without URIs as it is."""
    return _EMBEDDED.sub(lambda match: _without_secrets(match[0]), text) if "://" in text else text


def _without_secrets(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    place, mark, query = rest.partition("?")
    host = place.partition("/")[0]
    # A key that was not encoded may hold a slash: then all up to the last @ may be part of it.
    odd = ":" in host and not host.rpartition(":")[2].isdecimal()
    at = (place if odd else host).rpartition("@")[1:]
    if at[0]:
        place = f"{HIDDEN}@{at[1]}" + ("" if odd else place[len(host) :])
    options = []
    for option in query.split("&") if mark else []:
        name, equals, value = option.partition("=")
        options.append(f"{name}{equals}{value if name in HARMLESS else HIDDEN}")
    return f"{scheme}://{place}{mark}{'&'.join(options)}"


def scrubbed(text: str, root: str) -> str:
    """Return what a library said of a root, with every secret that the root holds taken out."""
    found = shown(text)
    try:
        uri = parsed(root)
    except UsageError:
        return found
    secrets = [uri.password, uri.user, *(value for name, value in uri.options.items() if name not in HARMLESS)]
    for secret in sorted({form for s in secrets if len(s) > 2 for form in (s, quote(s, safe=""))}, key=len):
        found = found.replace(secret, HIDDEN)
    return found
