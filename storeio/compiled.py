"""Compile kernels with numba once per machine, not once per process.

``@compiled("int64(readonly(uint8[::1]), int64)")`` is numba's ``njit`` with an explicit signature, without the GIL, and
with a disk cache of our own. Numba's cache goes by path and wants to write near the source, so it is cold in every
Spark session that gets us as a zip. Ours goes by content: the same source, numba and CPU find the same entry, wherever
the source lies. Entries are pickles, so they are read only from a directory that nobody else can write.

Source: ``numba.core.caching``, ``Dispatcher.compile`` and ``CPUCodeLibrary._unserialize`` of numba 0.60 to 0.68, whose
``_cache`` object we replace.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import io
import pickle
import pkgutil
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types
from numba.core import caching, compiler, serialize, typeinfer
from numba.core.compiler_lock import global_compiler_lock

from storeio.entries import cache_directory, is_kept, locked, read_entry, remove_stale, write_entry

F = TypeVar("F", bound=Callable[..., Any])

# Numba's settings that change machine code and that its description of the CPU leaves out.
CODEGEN = "BOUNDSCHECK OPT LOOP_VECTORIZE SLP_VECTORIZE ENABLE_AVX USING_SVML DEBUGINFO_DEFAULT LLVM_REFPRUNE_FLAGS"
ARRAYS: set[Any] = set()  # numba makes a type anew, with another code, if none is there: two threads would make two


def readonly(array: Any) -> Any:
    """Type of the same arrays when they may not be written; they may."""
    ARRAYS.add(array)
    return array.copy(readonly=True)


NOTATION = {**vars(types), "readonly": readonly}
config: Any = numba.config  # its attributes are set at run time
REBUILD: Any = compiler.CompileResult._rebuild  # these four because numba has no types
DUMP: Any = serialize.dumps
ENVIRONMENT: Any = importlib.import_module("numba.core.environment").Environment
ALLOCATOR: Any = importlib.import_module("numba.core.runtime._nrt_python")
COUNTS = {"loaded": 0, "compiled": 0}  # signatures, in this process


def compiled(signatures: str | Sequence[str], **options: Any) -> Callable[[F], F]:
    """Return a decorator that compiles a function for these signatures now, or loads it from the disk cache.

    Args:
        signatures: In numba's notation, for instance ``"int64(uint8[::1], int64)"``. ``readonly(uint8[::1])`` takes
            read-only arrays, such as views of a mapped file, and writable ones; plain ``uint8[::1]`` only writable.
        options: More arguments for ``numba.njit``, such as ``inline="always"``.
    """

    def decorate(function: F) -> F:
        if config.DISABLE_JIT:  # NUMBA_DISABLE_JIT=1: the function stays as it is
            return function
        options.setdefault("_nrt", False)  # kernels allocate nothing; counting references cost a third of the walk
        dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
        dispatcher._cache = KernelCache(dispatcher, signatures, options)
        dispatcher._cache.prepare()
        return dispatcher  # type: ignore[no-any-return, unused-ignore]

    return decorate


def load_ahead(*kernels: Callable[..., Any]) -> None:
    """Load kernels in this thread, while others are busy and before they would have to wait for it."""
    for kernel in kernels:
        if isinstance(cache := getattr(kernel, "_cache", None), KernelCache):
            cache.load()


@contextlib.contextmanager
def loading(*kernels: Callable[..., Any]) -> Iterator[None]:
    """Load kernels while the block is run: most of that is done without the interpreter. They are there behind it."""
    loader = threading.Thread(target=load_ahead, args=kernels)
    loader.start()
    try:
        yield
    finally:
        loader.join()


class KernelCache(caching.NullCache):  # type: ignore[misc, unused-ignore]
    """Cache of one function's signatures, as numba's dispatcher wants it; misses where no directory serves."""

    def __init__(self, dispatcher: Any, signatures: str | Sequence[str], options: dict[str, Any]) -> None:
        self._dispatcher = dispatcher
        self.content = function_content(dispatcher.py_func)
        content = digest([environment(dispatcher.targetctx), self.content, repr(sorted(options.items())).encode()])
        name = re.sub(r"[^A-Za-z0-9_.]", "", f"{dispatcher.__module__}.{dispatcher.__qualname__}")[-80:]
        directory, self._entries = cache_directory(), dict[Any, Path | None]()  # by signature
        for text in [signatures] if isinstance(signatures, str) else signatures:
            signature = eval(text, {}, NOTATION)  # the text is a literal in our own source
            key = digest([content, str(signature).encode()]).hex()[:40]
            self._entries[signature] = directory and directory / f"{name}-{key}.bin"

    def prepare(self) -> None:
        """Compile what is in no entry now; have the rest loaded when Python or the compiler of a kernel first calls."""
        if all(entry and is_kept(entry) for entry in self._entries.values()):
            # Most kernels serve only kernels that are compiled already, and loading costs ten times all the rest here.
            kind = type(self._dispatcher)
            template, search = kind.get_call_template, kind._search_new_conversions
            self._dispatcher.get_call_template = lambda args, named: template(self.load(), args, named)
            # Numba calls this where it knows no signature for a call, and looks again. It must not be let compile: a
            # call that began when it was is bound to signatures without conversions, and finds none for writable arrays
            # if another thread has loaded them in between.
            self._dispatcher._search_new_conversions = lambda *args: search(self.load(), *args)
            self._dispatcher._can_compile = False
        else:
            self.load()

    def load(self) -> Any:
        """Dispatcher after every signature is loaded or, by one process at a time, compiled."""
        with global_compiler_lock, typeinfer.register_dispatcher(self._dispatcher):  # lets a function call itself
            for signature, entry in self._entries.items():
                if tuple(signature.args) not in self._dispatcher.overloads:
                    with contextlib.nullcontext() if entry is None or is_kept(entry) else locked(entry):
                        self._add(signature)  # it looks for the entry again: another may have compiled it
            self._dispatcher._can_compile = False
        return self._dispatcher

    def _add(self, signature: Any) -> None:
        """Load or compile a signature, as ``Dispatcher.compile`` does where that is allowed."""
        dispatcher = self._dispatcher
        with dispatcher._compiling_counter:
            result = self.load_overload(signature, dispatcher.targetctx)
            if result is None:
                result = dispatcher._compiler.compile(signature.args, signature.return_type)
                self.save_overload(signature, result)
            else:
                dispatcher.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
            dispatcher.add_overload(result)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Numba's compile result for a signature, None where it has to be compiled."""
        payload: Any = (entry := self._entries.get(sig)) and read_entry(entry)
        with contextlib.suppress(Exception):  # no entry, or whatever is wrong with it: compiling writes another
            tell_allocator()
            symbols, reduced = Unpickler(io.BytesIO(payload)).load()
            result = with_late_bitcode(target_context, symbols, *reduced)
            COUNTS["loaded"] += 1
            return result
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compile result to its entry, unless it cannot be kept."""
        COUNTS["compiled"] += 1
        if (entry := self._entries.get(sig)) is None or data.lifted or data.library.has_dynamic_globals:
            return
        with contextlib.suppress(OSError, pickle.PicklingError):  # a full disk costs the next start, not this one
            reduced = data._reduce()
            write_entry(entry, DUMP((defined_symbols(data.library._get_module_for_linking()), reduced)))
            remove_stale(entry.parent)


class Unpickler(pickle.Unpickler):
    """Gives what was kept of a compile result back, without importing what the compiler took into it from elsewhere."""

    def find_class(self, module: str, name: str) -> Any:
        """What numba's name stands for."""
        return environment_of if name == "_rebuild_env" else super().find_class(module, name)


def environment_of(module: str, constants: list[Any], name: str) -> Any:
    """What machine code has of Python: its constants. Numba imports a function's module, which is half of numba for one
    ``np.empty``, for globals that only its object mode wants."""
    if (found := ENVIRONMENT._memo.get(name)) is None:
        found = ENVIRONMENT._memo[name] = ENVIRONMENT({"__name__": module})
        found.consts[:], found.env_name = constants, name
    return found


@functools.cache
def tell_allocator() -> None:
    """Tell LLVM where the functions are that kernels allocate with.

    Numba does it, and imports all of itself that compiling needs, before it compiles or loads anything: half a second
    and 40 MB, without which code that is compiled already can be called.
    """
    for name, address in ALLOCATOR.c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def defined_symbols(module: Any) -> list[str]:
    """Names of all that an LLVM module defines."""
    return [value.name for found in (module.functions, module.global_variables) for value in found
            if not value.is_declaration]  # fmt: skip


def with_late_bitcode(target_context: Any, symbols: list[str], library: Any, *rest: Any) -> Any:
    """Compile result from what was kept of it; the bitcode is parsed when another kernel is compiled that calls it.

    Parsing takes as long as all the rest of loading, and numba needs it at once only for the names of ``symbols``.
    """
    name, kind, (code, bitcode) = library
    target_context.codegen()._engine._defined_symbols.update(symbols)
    result = REBUILD(target_context, (name, kind, (code, llvm.parse_assembly("").as_bitcode())), *rest)
    result.library._get_module_for_linking = functools.cache(lambda: llvm.parse_bitcode(bitcode))
    return result


def digest(parts: Sequence[bytes]) -> bytes:
    """SHA-256 of some byte strings that tells ``[b"ab"]`` from ``[b"a", b"b"]``."""
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def environment(target: Any) -> bytes:
    """Everything but the source that machine code depends on: versions, settings, CPU."""
    settings = [str(getattr(config, name, None)) for name in CODEGEN.split()]
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.version)
    return repr((versions, settings, target.codegen().magic_tuple())).encode()


def function_content(function: FunctionType) -> bytes:
    """Digest of all that a function's machine code is made of: sources, byte code, constants, callees.

    Byte code, since a file may change after its import; sources, since numba's extensions are reached without names.
    """
    place = (function.__module__, function.__qualname__, function.__code__.co_firstlineno)
    used = sorted((name, value_content(value)) for name, value in values_used(function))
    package = package_source(function.__globals__.get("__package__") or "")
    sources = (module_source(function.__module__), module_source(__name__), package)
    return digest([repr((place, code_parts(function.__code__), used)).encode(), *sources])


def code_parts(code: CodeType) -> tuple[Any, ...]:
    """Byte code, names and constants of a code object and of those nested in it, without paths and line numbers."""
    constants = (code_parts(value) if isinstance(value, CodeType) else value for value in code.co_consts)
    return code.co_code, code.co_varnames, code.co_names, *constants


def code_names(code: CodeType) -> set[str]:
    """Names of globals and attributes in a code object and in those nested in it."""
    return set(code.co_names).union(*(code_names(value) for value in code.co_consts if isinstance(value, CodeType)))


def values_used(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of the globals, attributes and closure cells a function uses: numba freezes them."""
    names = sorted(code_names(function.__code__))
    waiting = [(name, function.__globals__[name]) for name in names if name in function.__globals__]
    waiting += inspect.getclosurevars(function).nonlocals.items()
    seen: list[Any] = [numba, np]  # their versions are in the key
    for name, value in waiting:  # grows on the way
        if not isinstance(value, (ModuleType, type)):
            yield name, value
        elif not any(value is known for known in seen):
            seen.append(value)
            waiting += [(f"{name}.{inner}", getattr(value, inner)) for inner in names if hasattr(value, inner)]


def value_content(value: Any) -> bytes:
    """Bytes that change when a frozen value or the content of a function called does."""
    if isinstance(value, (np.ndarray, np.generic)):
        return digest([repr((value.dtype.descr, value.shape)).encode(), value.tobytes()])
    if isinstance(cache := getattr(value, "_cache", None), KernelCache):
        return cache.content
    function = getattr(value, "py_func", getattr(value, "_defn", value))  # numba's dispatchers, numba's intrinsics
    if isinstance(function, FunctionType):
        return digest([module_source(function.__module__), repr(code_parts(function.__code__)).encode()])
    if isinstance(value, (bool, int, float, complex, str, bytes, tuple, Enum, np.dtype)):
        return repr(value).encode()
    return b""  # types, None, builtins


@functools.cache
def module_source(name: str) -> bytes:
    """Digest of a module's source, through its loader because it may lie in a zip; empty if there is none."""
    with contextlib.suppress(AttributeError, ImportError, OSError, SyntaxError, ValueError):
        loader: Any = getattr(importlib.util.find_spec(name), "loader", None)
        return digest([(loader.get_source(name) or "").encode()])
    return b""


@functools.cache
def package_source(name: str) -> bytes:
    """Digest of all modules of a sub-package, imported or not; of none for a top-level package."""
    if "." not in name:  # its other modules are no kernels
        return b""
    modules = sorted(info.name for info in pkgutil.iter_modules(sys.modules[name].__path__, f"{name}."))
    return digest([module.encode() + module_source(module) for module in [name, *modules]])
