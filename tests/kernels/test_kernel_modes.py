"""The kernels with bounds checks on, and as plain Python, give what they give compiled.

Both modes are settings of a whole process, so each runs in its own: this file, started as a script, prints the
digest of what it finds in some damaged segments.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TESTS = Path(__file__).parents[1]


def segments() -> list[tuple[int, bytes]]:
    """Return small segments with all kinds of messages, and the same with seeded damage."""
    import random

    from damage import MESSAGES, append
    from storebuilder import StoreBuilder

    builder = StoreBuilder(base=8192, segment_bytes=4096, property_crc=True)
    for number, what in enumerate(MESSAGES):
        append(builder, what, 120, number)
    sound = builder.segment_files()
    chance = random.Random(17)
    found = list(sound)
    for base, data in sound:
        for _ in range(6):
            broken = bytearray(data)
            for _ in range(chance.randrange(1, 5)):
                at = chance.randrange(len(data))
                stop = min(at + chance.choice([1, 1, 4, 64, 300]), len(data))
                broken[at:stop] = chance.choice([bytes(stop - at), chance.randbytes(stop - at), data[: stop - at]])
            found.append((base, bytes(broken[: chance.choice([len(data), len(data), chance.randrange(300, 4096)])])))
    return found


@functools.cache
def results() -> list[str]:
    """Return one line a segment and split size: digest of all that the walk says of it."""
    from walks import Reader

    import storeio.walk
    import storeio.window
    from storeio.paths import COMMITLOG, StoreFile
    from storeio.splits import cut

    lines = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(storeio.window, "LOOK_AHEAD_BYTES", 1)
        for base, data in segments():
            array = np.frombuffer(data, np.uint8)
            for step in (len(data), 640):
                seen = hashlib.sha256()
                for split in cut(StoreFile("", COMMITLOG, len(data), base), step):
                    read = Reader(array)
                    walked = storeio.walk.walk_split(read, split, piece_bytes=300 if step == 640 else None)
                    for table in (walked.records, walked.keys, walked.spans):
                        seen.update(np.ascontiguousarray(table).tobytes())
                    seen.update(repr((walked.queues, walked.end, walked.asked)).encode())
                lines.append(f"{base} {len(data)} {step} {seen.hexdigest()}")
    return lines


def results_with(**settings: str) -> list[str]:
    """Return the results of a process with these environment variables, else compiled as always."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "STOREIO_CRC"))}
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).resolve())],
        env={**kept, "PYTHONPATH": path, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("setting", [pytest.param("NUMBA_BOUNDSCHECK", marks=pytest.mark.long), "NUMBA_DISABLE_JIT"])
def test_same_results(setting: str) -> None:
    expected = results()
    assert len(expected) > 20
    assert results_with(**{setting: "1"}) == expected


@pytest.mark.parametrize("engine", ["isal", "zlib", "tables"])
def test_every_crc_engine_gives_the_same(engine: str) -> None:
    assert results_with(STOREIO_CRC_ENGINE=engine) == results()


if __name__ == "__main__":
    print("\n".join(results()))
