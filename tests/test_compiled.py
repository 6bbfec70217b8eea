"""The disk cache of compiled kernels, seen from fresh processes that import a small package of kernels."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storeio import compiled as under_test
from storeio import entries
from storeio.compiled import compiled

LAYOUT = "FIRST = 2\nSECOND = 3\n"
CALLEE = """
from storeio import layout
from storeio.compiled import compiled

@compiled("int64(int64)")
def weigh(value):
    return value * layout.FIRST + layout.SECOND
"""
CALLER = """
from storeio.compiled import compiled
from storeio.small.callee import weigh

@compiled("int64(readonly(uint8[::1]), int64)")
def total(data, count):
    found = 0
    for i in range(count):
        found += weigh(data[i])
    return found

@compiled("int64(int64)")
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)
"""
FUNCTIONS = 3
CALLED = 2  # by Python: their code has taken in weigh's
PROBE = """
import json, sys
from storeio import compiled, entries
{before}
import numpy as np
from storeio.small.caller import factorial, total
try:
    found = int(total(np.arange(5, dtype=np.uint8), {count}))
except IndexError:
    found = "IndexError"
directory = entries.cache_directory()
print(json.dumps(dict(
    found=found, factorial=int(factorial(6)), directory=directory and str(directory), file=compiled.__file__,
    plain=not hasattr(total, "py_func"), **compiled.COUNTS,
)))
"""
TOTAL = sum(range(5)) * 2 + 5 * 3


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory to put on the path: a copy of the module under test and a sub-package of two modules of kernels."""
    root = tmp_path_factory.mktemp("package")
    write_package(root)
    return root


@pytest.fixture(scope="module")
def warm(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cache directory that holds all entries of the package; tests copy it before they change it."""
    cache = tmp_path_factory.mktemp("warm")
    assert probe(package, cache)["compiled"] == FUNCTIONS
    return cache


@pytest.fixture
def cache(warm: Path, tmp_path: Path) -> Path:
    """Copy of the warm cache directory."""
    shutil.copytree(warm, tmp_path / "cache", copy_function=shutil.copy2)
    return tmp_path / "cache"


def write_package(root: Path, *, callee: str = CALLEE, layout: str = LAYOUT) -> None:
    small = root / "storeio" / "small"
    small.mkdir(parents=True)
    for module in (under_test, entries):
        shutil.copy(module.__file__, root / "storeio")
    (root / "storeio" / "__init__.py").touch()
    (root / "storeio" / "layout.py").write_text(layout)
    (small / "__init__.py").touch()
    (small / "callee.py").write_text(callee)
    (small / "caller.py").write_text(CALLER)


def start(path: Path, cache: Path | None, *, before: str = "", count: int = 5, **more: str) -> subprocess.Popen[str]:
    """Start a process that imports the package from a directory or zip, runs its kernels and prints what happened."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_", "STOREIO_", "XDG_"))}
    if cache is not None:
        inherited["STOREIO_CACHE_DIR"] = str(cache)
    settings = {**inherited, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", **more}
    command = [sys.executable, "-c", PROBE.format(before=before, count=count)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=settings, cwd=path.parent, stdout=pipe, stderr=pipe, text=True)


def probe(path: Path, cache: Path | None, **how: Any) -> dict[str, Any]:
    """What ``start``'s process printed; its warnings under ``stderr``."""
    process = start(path, cache, **how)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return {**json.loads(output), "stderr": errors}


def assert_loaded(result: dict[str, Any]) -> None:
    assert (result["loaded"], result["compiled"]) == (CALLED, 0)
    assert (result["found"], result["factorial"]) == (TOTAL, 720)


def assert_compiled(result: dict[str, Any]) -> None:
    assert (result["loaded"], result["compiled"]) == (0, FUNCTIONS)
    assert (result["found"], result["factorial"]) == (TOTAL, 720)


def test_second_process_loads_whatever_its_hash_seed(package: Path, warm: Path) -> None:
    for seed in ("1", "2"):
        assert_loaded(probe(package, warm, PYTHONHASHSEED=seed))


@pytest.mark.long
def test_package_may_be_read_only(package: Path, warm: Path, tmp_path: Path) -> None:
    install = tmp_path / "install"
    shutil.copytree(package, install)
    directories = [install, *(path for path in install.rglob("*") if path.is_dir())]
    for path in directories:
        path.chmod(0o555)
    before = sorted(install.rglob("*"))
    try:
        assert_compiled(probe(install, tmp_path / "empty"))
        assert_loaded(probe(install, warm))
        assert sorted(install.rglob("*")) == before  # root may write: then this is the test
    finally:
        for path in directories:
            path.chmod(0o755)


def test_zips_share_entries_with_a_directory(package: Path, warm: Path, tmp_path: Path) -> None:
    for session in ("one", "two"):
        (tmp_path / session).mkdir()
        archive = tmp_path / session / "files.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            for path in sorted(package.rglob("*.py")):
                target.write(path, path.relative_to(package))
        result = probe(archive, warm)
        assert result["file"].startswith(str(archive))
        assert_loaded(result)


def test_many_processes_compile_once(package: Path, tmp_path: Path) -> None:
    processes = [start(package, tmp_path / "cache") for _ in range(3)]
    results = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    assert [result["found"] for result in results] == [TOTAL] * 3
    assert sum(result["compiled"] for result in results) == FUNCTIONS


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def empty(data: bytes) -> bytes:
    return b""


def flip(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


def junk_with_right_checksum(data: bytes) -> bytes:
    return entries.MAGIC + hashlib.sha256(b"junk").digest() + b"junk"


@pytest.mark.parametrize(
    "damages", [(cut, empty, flip), (junk_with_right_checksum,) * FUNCTIONS], ids=["bytes", "junk"]
)
def test_damaged_entries_are_compiled_again(
    package: Path, cache: Path, damages: Sequence[Callable[[bytes], bytes]]
) -> None:
    for entry, damage in zip(sorted(cache.glob("*.bin")), damages, strict=True):
        entry.write_bytes(damage(entry.read_bytes()))
    assert_compiled(probe(package, cache))
    assert_loaded(probe(package, cache))


def test_edited_callee_invalidates_its_caller(cache: Path, tmp_path: Path) -> None:
    write_package(tmp_path / "new", callee=CALLEE.replace("layout.SECOND", "layout.SECOND + 10"))
    result = probe(tmp_path / "new", cache)
    assert result["found"] == TOTAL + 50
    assert result["loaded"] == 0


@pytest.mark.long
def test_changed_constants_of_another_package_count(package: Path, cache: Path, tmp_path: Path) -> None:
    write_package(tmp_path / "new", layout="FIRST = 3\nSECOND = 2\n")  # the same values under other names
    result = probe(tmp_path / "new", cache)
    assert result["found"] == sum(range(5)) * 3 + 5 * 2
    assert result["loaded"] == 1  # factorial knows nothing of them
    assert_loaded(probe(package, cache))


@pytest.mark.long
def test_file_edited_after_its_import_is_not_cached_as_the_new_one(package: Path, cache: Path, tmp_path: Path) -> None:
    write_package(tmp_path / "old", callee=CALLEE.replace("layout.SECOND", "layout.SECOND + 10"))
    callee = tmp_path / "old" / "storeio" / "small" / "callee.py"
    shutil.rmtree(cache)
    # The import of layout stands for a slow one: the callee's code is read already, its source not yet looked at.
    edit = f"import pathlib; pathlib.Path({str(callee)!r}).write_text({CALLEE!r})"
    (tmp_path / "old" / "storeio" / "layout.py").write_text(f"{edit}\n{LAYOUT}")
    assert probe(tmp_path / "old", cache)["found"] == TOTAL + 50
    result = probe(package, cache)
    assert (result["found"], result["loaded"]) == (TOTAL, 1)  # factorial is the same in both


@pytest.mark.long
def test_bounds_checked_code_has_its_own_entries(package: Path, cache: Path) -> None:
    result = probe(package, cache, count=6, NUMBA_BOUNDSCHECK="1")
    assert (result["compiled"], result["found"]) == (FUNCTIONS, "IndexError")
    assert_loaded(probe(package, cache))


def test_without_jit_functions_stay_plain(package: Path, tmp_path: Path) -> None:
    result = probe(package, tmp_path / "cache", NUMBA_DISABLE_JIT="1")
    assert result["plain"]
    assert (result["found"], result["factorial"], result["compiled"]) == (TOTAL, 720, 0)
    assert list((tmp_path / "cache").glob("*")) == []


def test_killed_while_writing_leaves_no_entry_and_no_lock(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    kill = "import os; from pathlib import Path; Path.replace = lambda self, target: os._exit(9)"
    process = start(package, cache, before=kill)
    process.communicate(timeout=300)
    assert process.returncode == 9
    assert {path.suffix for path in cache.iterdir()} == {".lock", ".tmp"}
    assert_compiled(probe(package, cache))
    assert_loaded(probe(package, cache))


@pytest.mark.long
def test_compiles_and_keeps_where_locking_is_impossible(package: Path, tmp_path: Path) -> None:
    broken = "def refuse(*_): raise OSError(37, 'No locks available')\nentries.fcntl.flock = refuse"
    assert_compiled(probe(package, tmp_path / "cache", before=broken))
    assert_loaded(probe(package, tmp_path / "cache", before=broken))


def test_hung_compiler_is_not_waited_for_forever(package: Path, cache: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    for entry in cache.glob("*.bin"):
        entry.unlink()
    locks = [path.open("ab") for path in cache.glob("*.lock")]
    assert len(locks) == FUNCTIONS
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_EX)
    assert_compiled(probe(package, cache, before="entries.LOCK_TRIES = 3"))
    for lock in locks:
        lock.close()


def test_compiles_in_memory_where_no_directory_serves(package: Path) -> None:
    nowhere = "entries.candidate_directories = lambda: iter(())"
    result = probe(package, None, before=nowhere)
    assert result["directory"] is None
    assert_compiled(result)


def test_full_disk_does_not_matter(package: Path, tmp_path: Path) -> None:
    full = "from pathlib import Path\ndef refuse(*_): raise OSError(28, 'No space left')\nPath.write_bytes = refuse"
    assert_compiled(probe(package, tmp_path / "cache", before=full))
    assert not list((tmp_path / "cache").glob("*.bin"))


def test_shared_directory_is_refused_with_a_warning(package: Path, cache: Path, tmp_path: Path) -> None:
    assert entries.is_private(cache)
    for mode in (0o770, 0o702, 0o1777):
        cache.chmod(mode)
        assert not entries.is_private(cache)
    result = probe(package, cache, XDG_CACHE_HOME=str(tmp_path / "xdg"))
    assert_compiled(result)  # it holds valid entries, which must not be loaded
    assert result["directory"] == str(tmp_path / "xdg" / "storeio")
    assert str(cache) in result["stderr"]


@pytest.mark.long
def test_home_then_temporary_directory(package: Path, tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    result = probe(package, None, HOME=str(home))
    assert result["directory"] == str(home / ".cache" / "storeio")
    no_home = tmp_path / "file"
    no_home.touch()
    result = probe(package, None, HOME=str(no_home), TMPDIR=str(temporary))
    assert result["directory"] == str(temporary / f"storeio-{os.geteuid()}")
    assert Path(result["directory"]).stat().st_mode & 0o777 == 0o700


def test_directory_of_another_user_is_not_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert entries.is_private(tmp_path)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert not entries.is_private(tmp_path)


def test_directory_that_another_can_replace_is_not_private(tmp_path: Path) -> None:
    inner = tmp_path / "shared" / "inner"
    inner.mkdir(parents=True, mode=0o700)
    inner.parent.chmod(0o777)
    assert not entries.is_private(inner)
    inner.parent.chmod(0o1777)  # sticky: only its owner renames inner
    assert entries.is_private(inner)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_link_that_another_user_left_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    assert entries.is_private(tmp_path / "link")
    os.lchown(tmp_path / "link", 12345, 12345)
    assert not entries.is_private(tmp_path / "link")


def test_first_private_directory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setattr(entries, "candidate_directories", lambda: iter([shared, private]))
    assert entries.cache_directory.__wrapped__() == private
    assert private.stat().st_mode & 0o777 == 0o700


def test_only_old_files_of_the_cache_are_removed(cache: Path) -> None:
    names = {path.name for path in cache.iterdir()}
    old = next(cache.glob("*.bin"))
    torn = old.with_suffix(f".{'0' * 32}.tmp")
    foreign = cache / "holiday-2019.bin"
    for path in (torn, foreign):
        path.touch()
    for path in (old, torn, foreign):
        os.utime(path, (0, 0))
    entries.remove_stale.__wrapped__(cache)
    assert {path.name for path in cache.iterdir()} == names - {old.name} | {foreign.name}


def test_importing_keeps_entries_young_whether_called_or_not(package: Path, cache: Path) -> None:
    entries = list(cache.glob("*.bin"))
    assert len(entries) == FUNCTIONS
    week_ago = time.time() - 7 * 86400
    for entry in entries:
        os.utime(entry, (week_ago, week_ago))
    assert_loaded(probe(package, cache))
    assert all(entry.stat().st_mtime > week_ago + 86400 for entry in entries)


def test_first_calls_from_many_threads_agree(package: Path, warm: Path) -> None:
    before = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from storeio.small.caller import factorial
barrier = Barrier(8)
def call(n):
    barrier.wait()
    return factorial(n)
with ThreadPoolExecutor(8) as pool:
    assert list(pool.map(call, [5] * 8)) == [120] * 8
"""
    assert_loaded(probe(package, warm, before=before))


def test_a_first_call_may_begin_before_another_thread_s_and_end_behind_it(package: Path, warm: Path) -> None:
    """It needs a conversion, from a writable array, which numba does not look for where it may compile."""
    before = """
import threading
import numpy as np
from numba.core import dispatcher
from storeio.small.caller import total
real, data, results = dispatcher._DispatcherBase.typeof_pyval, np.ones(5, np.uint8), []
inside, go_on = threading.Event(), threading.Event()
def typeof_pyval(self, value):
    if threading.current_thread() is slow:
        inside.set()
        go_on.wait()
    return real(self, value)
dispatcher._DispatcherBase.typeof_pyval = typeof_pyval
slow = threading.Thread(target=lambda: results.append(total(data, 5)))
slow.start()
inside.wait()
results.append(total(data, 5))
go_on.set()
slow.join()
assert results == [25, 25], results
"""
    assert_loaded(probe(package, warm, before=before))


def test_wrong_types_are_refused_before_and_after_loading(package: Path, warm: Path) -> None:
    before = """
from storeio.small.caller import total
for _ in range(2):
    try:
        total("text", 1)
    except TypeError:
        continue
    raise AssertionError("took a text")
"""
    assert_loaded(probe(package, warm, before=before))


def test_new_caller_of_loaded_kernels_compiles(package: Path, cache: Path) -> None:
    before = """
from storeio.small.callee import weigh
@compiled.compiled("int64(int64)")
def twice(value):
    return 2 * weigh(value)
assert twice(1) == 10
"""
    result = probe(package, cache, before=before)
    assert (result["compiled"], result["loaded"]) == (1, 3)  # the new one; the two called and weigh


ALLOCATES = """
import numpy as np
@compiled.compiled("int64(int64)", _nrt=True)
def filled(count):
    return np.zeros(count, np.int64).sum()
assert filled(5) == 0
if {is_loaded}:
    assert compiled.COUNTS["compiled"] == 0 and "numba.np.arrayobj" not in sys.modules, sorted(sys.modules)
    @compiled.compiled("int64(int64)", _nrt=True)
    def ones(count):
        return np.ones(count, np.int64).sum() + filled(count)
    assert ones(5) == 5
"""


def test_loads_without_what_only_compiling_needs_and_can_compile_afterwards(package: Path, cache: Path) -> None:
    assert probe(package, cache, before=ALLOCATES.format(is_loaded=False))["compiled"] == 1
    assert probe(package, cache, before=ALLOCATES.format(is_loaded=True))["compiled"] == 1  # the one that is new


@pytest.mark.skipif(bool(under_test.config.DISABLE_JIT), reason="plain functions take every array")
def test_readonly_takes_both_kinds_of_arrays() -> None:
    @compiled("int64(readonly(uint8[::1]))")
    def reads(data: Any) -> Any:
        return data[0]

    @compiled("int64(uint8[::1])")
    def writes(data: Any) -> Any:
        data[0] = 7
        return data[0]

    data = np.ones(1, dtype=np.uint8)
    assert (reads(data), writes(data)) == (1, 7)
    data.flags.writeable = False
    assert reads(data) == 7
    with pytest.raises(TypeError):
        writes(data)


@pytest.mark.skipif(bool(under_test.config.DISABLE_JIT), reason="tests what compiled code freezes")
def test_closures_of_one_function_do_not_share_an_entry() -> None:
    def adder(amount: int) -> Any:
        @compiled("int64(int64)")
        def add(value: int) -> int:
            return value + amount

        return add

    assert [adder(amount)(1) for amount in (1, 2, 1)] == [2, 3, 2]


@pytest.mark.skipif(bool(under_test.config.DISABLE_JIT), reason="tests signatures")
def test_one_function_takes_several_signatures() -> None:
    @compiled(["int64(int64)", "float64(float64)"])
    def half(value: Any) -> Any:
        return value / 2 if isinstance(value, float) else value

    assert half(3) == 3
