"""Errors for misuse and for what cannot be read; damage is a finding, never an error.

Each is also a built-in kind, so that callers may catch what they know.
"""

from __future__ import annotations


class StoreError(Exception):
    """Base of every error this package raises on purpose."""


class LayoutError(StoreError, ValueError):
    """Bytes handed to a decoder do not have the length that its layout needs."""


class NotAStoreError(StoreError, FileNotFoundError):
    """The path is no store directory: it does not exist or holds nothing of a store."""


class UnreadableError(StoreError, OSError):
    """A file or directory of the store could not be listed or read; ``names_store`` says that the text begins with it,
    as where work has more stores than one."""

    names_store = False


class UsageError(StoreError, ValueError):
    """The caller asked for something that makes no sense: unknown setting, bad value."""


class MismatchError(UsageError):
    """The store, or what lies beside a plan, is not what the plan expects; nothing was changed by finding that out."""


class NotAppliedError(StoreError, OSError):
    """A plan could not be carried out or taken back: locked, no space, an input or output error."""


class AuditError(StoreError, AssertionError):
    """The audit contradicts itself, e.g. byte classes do not add up; its result is void."""


class WriteError(StoreError, OSError):
    """A file of the output could not be written: no space, no permission, a failing disk."""
