"""A URI opened as a file system of ``pyarrow.fs``, one a process.

S3 is connected to by hand, because only so timeouts and the client's own retries can be set. The client counts a
request as failed after ``request_timeout`` seconds in which less than a byte a second came, on Linux too.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from storeio.errors import UnreadableError, UsageError
from storeio.remote.trouble import Health, Limits, one_line
from storeio.uris import Uri, parsed, scrubbed, shown

S3: Final = "s3"
GOOGLE: Final = ("gs", "gcs")
RETRY_LIMIT: Final = "retry_limit_seconds"
RETRIES, REQUEST_TIMEOUT, CONNECT_TIMEOUT = "retries", "request_timeout", "connect_timeout"
LIMITS: Final[dict[str, float]] = {RETRIES: 5, REQUEST_TIMEOUT: 20, CONNECT_TIMEOUT: 5}  # ours, with any scheme
MOST: Final = {RETRIES: 100, REQUEST_TIMEOUT: 3600, CONNECT_TIMEOUT: 3600}
S3_TEXTS: Final = ("region", "scheme", "endpoint_override", "session_token", "tls_ca_file_path")
S3_FLAGS: Final = ("anonymous", "force_virtual_addressing")
OBJECTS: Final = ("s3", "gcs", "abfs")  # type names of file systems in which a rename is a copy
CLIENT_ATTEMPTS: Final = 3  # of each request of a listing or an upload, which consist of many
REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True, slots=True)
class Place:
    """An opened root: reads try once, ``patient`` has the client try again by itself, for listing and writing."""

    root: str
    base: str
    fs: Any
    patient: Any
    limits: Limits
    health: Health

    @property
    def has_rename(self) -> bool:
        """Whether a directory can be given its name at once."""
        return self.fs.type_name not in OBJECTS

    def path(self, path: str) -> str:
        """Return the file system's name of a path below the root."""
        return f"{self.base.rstrip('/')}/{path}" if path else self.base


@functools.lru_cache(maxsize=64)
def opened(root: str) -> Place:
    """Return the file system of a URI, connected once a process.

    Raises:
        UsageError: A scheme or option that does not exist, or ``pyarrow`` is not there.
        UnreadableError: What the scheme needs is not there, or does not answer.
    """
    uri = parsed(root)
    known = {name: uri.options[name] for name in LIMITS if name in uri.options}
    limits = _limits(root, known)
    fs, base = connected(root, uri, limits, 1)
    patient = connected(root, uri, limits, CLIENT_ATTEMPTS)[0] if uri.scheme == S3 else fs
    return Place(root, base, fs, patient, limits, Health())


def connected(root: str, uri: Uri, limits: Limits, attempts: int) -> tuple[Any, str]:
    """Return a file system of ``pyarrow.fs`` and the root's path in it.

    Raises:
        UsageError, UnreadableError: As of ``opened``.
    """
    try:
        from pyarrow import fs
    except ImportError:
        raise UsageError(f"{shown(root)}: needs pyarrow: pip install 'storeio[remote]'") from None
    try:
        if uri.scheme == S3:
            return _s3(fs, root, uri, limits, attempts), f"{uri.host}{uri.path}"
        found, base = fs.FileSystem.from_uri(_without_limits(root, uri, limits))
        return found, base.rstrip("/") or "/"
    except (ValueError, TypeError, NotImplementedError, AttributeError) as error:  # an option or a scheme it has not
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{shown(root)}: {scrubbed(one_line(error), root)}") from None
    except OSError as error:
        raise UnreadableError(f"{shown(root)}: {scrubbed(one_line(error), root)}") from None


def _without_limits(root: str, uri: Uri, limits: Limits) -> str:
    """Return the URI without the options that are ours, and for Google's client an end of its own tries.

    It asks for credentials by itself, for a quarter of an hour, of a machine that may not be there.
    """
    left = [(name, value) for name, value in uri.options.items() if name not in LIMITS]
    if uri.scheme in GOOGLE and RETRY_LIMIT not in uri.options:
        left.append((RETRY_LIMIT, f"{limits.connect_seconds:g}"))
    return urlsplit(root)._replace(query=urlencode(left)).geturl()


def _limits(root: str, given: Mapping[str, str]) -> Limits:
    numbers = dict(LIMITS)
    for name, text in given.items():
        whole = name == RETRIES
        if not re.fullmatch(r"\d{1,6}" if whole else r"\d{1,6}(\.\d{1,3})?", text) or float(text) > MOST[name]:
            raise UsageError(f"{shown(root)}: {name}={text}: a number up to {MOST[name]} is needed")
        if not whole and float(text) < 1:
            raise UsageError(f"{shown(root)}: {name}={text}: at least one second is needed")
        numbers[name] = float(text)
    return Limits(int(numbers[RETRIES]) + 1, numbers[REQUEST_TIMEOUT], numbers[CONNECT_TIMEOUT])


def _s3(fs: Any, root: str, uri: Uri, limits: Limits, attempts: int) -> Any:
    """Return the client of a bucket.

    Raises:
        UsageError: No bucket, or an option that is unknown or has a bad value.
    """
    if not uri.host:
        raise UsageError(f"{shown(root)}: names no bucket")
    unknown = sorted(set(uri.options) - {*LIMITS, *S3_TEXTS, *S3_FLAGS})
    if unknown:
        raise UsageError(
            f"{shown(root)}: no option {unknown[0]}; there are {', '.join((*LIMITS, *S3_TEXTS, *S3_FLAGS))}"
        )
    options: dict[str, Any] = {name: uri.options[name] for name in S3_TEXTS if name in uri.options}
    for name in S3_FLAGS:
        if name in uri.options:
            if uri.options[name] not in ("true", "false"):
                raise UsageError(f"{shown(root)}: {name}={uri.options[name]}: expected true or false")
            options[name] = uri.options[name] == "true"
    if bool(uri.user) != bool(uri.password):
        raise UsageError(f"{shown(root)}: an access key and a secret key are needed, KEY:SECRET@BUCKET, or neither")
    if uri.user:
        options |= {"access_key": uri.user, "secret_key": uri.password}
    if "region" not in options and (region := _region(fs, uri)) is not None:
        options["region"] = region
    options |= {
        "request_timeout": limits.request_seconds,
        "connect_timeout": limits.connect_seconds,
        "background_writes": False,  # else a whole file may wait in memory
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
    }
    try:
        return fs.S3FileSystem(allow_delayed_open=True, **options)  # a small object is one request
    except TypeError:  # older than that option
        return fs.S3FileSystem(**options)


def _region(fs: Any, uri: Uri) -> str | None:
    """Return the bucket's region where nobody gave it; the client alone may ask a service that is not there."""
    for name in REGIONS:
        if os.environ.get(name):
            return os.environ[name]
    if "endpoint_override" in uri.options or os.environ.get("AWS_ENDPOINT_URL"):
        return "us-east-1"  # servers that are not Amazon's accept it
    try:
        return str(fs.resolve_s3_region(uri.host))
    except OSError:
        return None  # the first request says what is wrong
