"""Compile kernels with numba once per machine, not once per process.

``@compiled("int64(readonly(uint8[::1]), int64)")`` is numba's ``njit`` with an explicit signature, without the GIL, and
with a disk cache of our own. Numba's cache goes by path and wants to write near the source, so it is cold in every
Spark session that gets us as a zip. Ours goes by content: the same source, numba and CPU find the same entry, wherever
the source lies. Entries are pickles, so they are read only from a directory that nobody else can write.

Source: ``numba.core.caching`` and ``Dispatcher.compile`` of numba 0.60 to 0.68, whose ``_cache`` object we replace.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import pickle
import pkgutil
import re
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISVTX
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import llvmlite  # type: ignore[import-untyped, unused-ignore]
import numba  # type: ignore[import-untyped, unused-ignore]
import numpy as np
from numba import types
from numba.core import caching, compiler, serialize, typeinfer  # type: ignore[import-untyped, unused-ignore]

try:
    import fcntl
except ImportError:  # not a POSIX system: no locks, no owners of files, hence no cache
    fcntl = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., Any])

MAGIC = b"storeio-kernel-1"  # first bytes of an entry; then the SHA-256 of the rest, then the pickle
KEEP_SECONDS = 28 * 86400  # an entry that no process loaded for so long belongs to an old version
TOUCH_SECONDS = 86400  # a used entry's time is refreshed at most this often
LOCK_SECONDS = 300.0  # a compiler that holds its lock longer has hung: stop waiting for it
POLL_SECONDS = 0.01
# Numba's settings that change machine code and that its description of the CPU leaves out.
CODEGEN = "BOUNDSCHECK OPT LOOP_VECTORIZE SLP_VECTORIZE ENABLE_AVX USING_SVML DEBUGINFO_DEFAULT LLVM_REFPRUNE_FLAGS"

NOTATION = {**vars(types), "readonly": lambda array: array.copy(readonly=True)}
OURS = re.compile(r"-[0-9a-f]{40}\.(bin|lock|[0-9a-f]{32}\.tmp)$")  # names of files in the cache
config: Any = numba.config  # its attributes are set at run time
COUNTS = {"loaded": 0, "compiled": 0}  # signatures, in this process


def compiled(signatures: str | Sequence[str], **options: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a function for these signatures now, or loads it from the disk cache.

    Args:
        signatures: In numba's notation, for instance ``"int64(uint8[::1], int64)"``. ``readonly(uint8[::1])`` takes
            read-only arrays, such as views of a mapped file, and writable ones; plain ``uint8[::1]`` only writable.
        options: More arguments for ``numba.njit``, such as ``inline="always"``.

    With ``NUMBA_DISABLE_JIT=1`` the function stays as it is.
    """
    listed = [signatures] if isinstance(signatures, str) else list(signatures)

    def decorate(function: F) -> F:
        if config.DISABLE_JIT:
            return function
        dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
        dispatcher._cache = cache = KernelCache(dispatcher.py_func, options)
        with typeinfer.register_dispatcher(dispatcher):  # lets a function call itself
            for text in listed:
                signature = parse_signature(text)
                with cache.one_compiler(signature, dispatcher.targetctx):
                    dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher  # type: ignore[no-any-return, unused-ignore]

    return decorate


def parse_signature(text: str) -> Any:
    """Return numba's signature object for a text in numba's notation, extended by ``readonly(array)``."""
    return eval(text, {}, NOTATION)  # the text is a literal in our own source


class KernelCache(caching.NullCache):  # type: ignore[misc, unused-ignore]
    """Cache of one function's signatures, as numba's dispatcher wants it; misses where no directory serves."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        self._name = re.sub(r"[^A-Za-z0-9_.]", "", f"{function.__module__}.{function.__qualname__}")[-80:]
        self._options = repr(sorted(options.items())).encode()
        self._payload: bytes | None = None  # read by one_compiler for the load_overload that follows
        self.content = function_content(function)

    def _entry(self, signature: Any, target: Any) -> Path | None:
        """File that holds this signature's machine code, None without a cache."""
        directory = cache_directory()
        if directory is None or self.content is None:
            return None
        name = digest([environment(target), self.content, self._options, str(signature).encode()]).hex()
        return directory / f"{self._name}-{name[:40]}.bin"

    @contextlib.contextmanager
    def one_compiler(self, signature: Any, target: Any) -> Iterator[None]:
        """Hold the entry's lock while the body compiles; without it when the entry is there already."""
        entry = self._entry(signature, target)
        self._payload = None if entry is None else read_entry(entry)
        if entry is None or self._payload is not None:
            yield
            return
        with locked(entry.with_suffix(".lock")):
            self._payload = read_entry(entry)  # another process may have finished it while we waited
            yield

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Numba's compile result for a signature, None where it has to be compiled."""
        payload, self._payload = self._payload, None
        if payload is None:
            return None
        target_context.refresh()
        rebuild: Any = compiler.CompileResult._rebuild
        try:
            result = rebuild(target_context, *pickle.loads(payload))
        except Exception:  # whatever is wrong with an entry, compiling it again replaces it
            return None
        COUNTS["loaded"] += 1
        return result

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compile result to its entry, unless it cannot be kept."""
        COUNTS["compiled"] += 1
        entry = self._entry(sig, data.target_context)
        if entry is None or data.lifted or data.library.has_dynamic_globals:
            return
        dumps: Any = serialize.dumps
        with contextlib.suppress(OSError, pickle.PicklingError):  # a full disk costs the next start, not this one
            write_entry(entry, dumps(data._reduce()))
            remove_stale(entry.parent)


def digest(parts: Sequence[bytes]) -> bytes:
    """SHA-256 of some byte strings that tells ``[b"ab"]`` from ``[b"a", b"b"]``."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def environment(target: Any) -> bytes:
    """Everything but the source that machine code depends on: versions, settings, CPU."""
    settings = [str(getattr(config, name, None)) for name in CODEGEN.split()]
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.version)
    return repr((versions, settings, target.codegen().magic_tuple())).encode()


def function_content(function: FunctionType) -> bytes | None:
    """Digest of all source and constants that a function's machine code is made of, None where a source is unknown."""
    own = module_source(function.__module__)
    if own is None:  # a notebook's cell, a test module
        with contextlib.suppress(OSError, TypeError):
            own = inspect.getsource(function).encode()
    used = {name: value_content(value) for name, value in values_used(function)}
    if own is None or None in used.values():
        return None
    place = (function.__module__, function.__qualname__, function.__code__.co_firstlineno)
    package = package_source(function.__globals__.get("__package__") or "")
    return digest([repr((place, sorted(used.items()))).encode(), own, module_source(__name__) or b"", package])


def values_used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of the globals, module attributes and closure cells a function uses: numba freezes them."""
    names = set(code_names(function.__code__))
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    found.update(inspect.getclosurevars(function).nonlocals)
    for name, value in found.items():
        if not isinstance(value, ModuleType):
            yield name, value
        elif value.__name__.partition(".")[0] not in ("numba", "numpy"):  # their versions are in the key
            yield from ((f"{name}.{inner}", getattr(value, inner)) for inner in names if hasattr(value, inner))


def code_names(code: CodeType) -> Iterator[str]:
    """Names of globals and attributes in a code object and in those nested in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_names(constant)


def value_content(value: Any) -> bytes | None:
    """Bytes that change when a frozen value does, None if a compiled callee's own content is unknown."""
    if isinstance(value, (np.ndarray, np.generic)):
        return digest([repr((value.dtype.descr, value.shape)).encode(), value.tobytes()])
    cache = getattr(value, "_cache", None)
    if isinstance(cache, KernelCache):
        return cache.content
    function = getattr(value, "py_func", getattr(value, "_defn", value))  # numba's dispatchers, numba's intrinsics
    if isinstance(function, FunctionType):
        return module_source(function.__module__) or b""
    if isinstance(value, (bool, int, float, complex, str, bytes, tuple, np.dtype)):
        return repr(value).encode()
    return b""  # types, None, builtins


def source_digest(spec: Any) -> bytes | None:
    """Digest of a module's source, through its loader because it may lie in a zip; None if there is none."""
    with contextlib.suppress(AttributeError, ImportError, OSError):
        source = spec.loader.get_source(spec.name)
        return None if source is None else digest([source.encode()])
    return None


_sources: dict[str, tuple[Any, bytes | None]] = {}  # imported module -> its spec, which a reload replaces, and digest


def module_source(name: str) -> bytes | None:
    """Digest of an imported module's source, None if there is none."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if name not in _sources or _sources[name][0] is not spec:
        _sources[name] = spec, source_digest(spec)
    return _sources[name][1]


@functools.cache
def package_source(name: str) -> bytes:
    """Digest of all modules of a sub-package, imported or not; of none for a top-level package."""
    if "." not in name:  # its other modules are no kernels
        return b""
    found = [(info.name, info.module_finder) for info in pkgutil.iter_modules(sys.modules[name].__path__, f"{name}.")]
    specs = [finder.find_spec(module, None) for module, finder in sorted(found)]  # type: ignore[call-arg, unused-ignore]
    return digest([repr((spec.name, source_digest(spec))).encode() for spec in specs if spec])


@functools.cache
def cache_directory() -> Path | None:
    """Directory of the entries that we can write and nobody else can, made if need be; None if there is no such."""
    for path in candidate_directories() if fcntl else ():
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_private(path) and os.access(path, os.W_OK | os.X_OK):
                return path.resolve()
        if str(path) == os.environ.get("STOREIO_CACHE_DIR"):
            warnings.warn(f"STOREIO_CACHE_DIR {path} is not used: others can write it or we cannot", stacklevel=2)
    return None


def candidate_directories() -> Iterator[Path]:
    """Places for the entries, best first."""
    if os.environ.get("STOREIO_CACHE_DIR"):
        yield Path(os.environ["STOREIO_CACHE_DIR"])
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with contextlib.suppress(RuntimeError):  # a user without a home directory
        yield (home if home.is_absolute() else Path.home() / ".cache") / "storeio"
    yield from (Path(place) / f"storeio-{os.geteuid()}" for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"))


def is_private(path: Path) -> bool:
    """Tell whether only we, root aside, can write a directory's entries or put another directory in its place."""
    owners = (os.geteuid(), 0)
    target = path.resolve()
    for place in (target, *target.parents):
        info = place.lstat()
        replaceable = info.st_mode & 0o022 and (place == target or not info.st_mode & S_ISVTX)
        if not S_ISDIR(info.st_mode) or replaceable or info.st_uid not in owners:
            return False
    # In a sticky directory anyone may leave a link to a directory of ours that is no cache.
    return target.stat().st_uid == os.geteuid() and path.lstat().st_uid in owners


def read_entry(path: Path) -> bytes | None:
    """Payload of an entry, None if it is missing, cut off or damaged."""
    try:
        data = path.read_bytes()
        start = len(MAGIC) + hashlib.sha256().digest_size
        if data[:start] != MAGIC + hashlib.sha256(data[start:]).digest():
            return None
        if time.time() - path.stat().st_mtime > TOUCH_SECONDS:
            os.utime(path)  # remove_stale goes by this time
    except OSError:
        return None
    return data[start:]


def write_entry(path: Path, payload: bytes) -> None:
    """Write an entry so that a reader, now or after a crash, sees all of it or none."""
    temporary = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(MAGIC + hashlib.sha256(payload).digest() + payload)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_stale(directory: Path) -> None:
    """Remove entries, locks and torn temporary files that no process used for long."""
    for path in directory.iterdir():
        with contextlib.suppress(OSError):  # another process removes them too
            if OURS.search(path.name) and time.time() - path.stat().st_mtime > KEEP_SECONDS:
                path.unlink()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes during the body, or no lock where locking is impossible or takes too long."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context(path.open("ab"))  # closing it unlocks
            deadline = time.monotonic() + LOCK_SECONDS
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(POLL_SECONDS)
        yield
