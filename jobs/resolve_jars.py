"""The Delta jars: resolved once during set-up, into a folder that every session starts from.

Resolving them at each start of a session costs 20 to 40 seconds and needs the network. Two ways are tried: Ivy, which
comes with Spark (``spark.jars.ivySettings`` and proxies as configured for Spark), then Maven (``settings.xml``). No
repository is named here: both use what the machine is configured for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pyspark

from storeio.errors import StoreError
from storeio.process import stop_when_asked

SCALA = "2.13"  # the only Scala that Spark 4 is built with
TIMEOUT_S = 600  # for one way of resolving: 40 MB over a slow line

# Spark has both, in its own version; they would be more than half of the download.
EXCLUDED = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
NEEDED = ("delta-spark", "delta-storage")

Jars = dict[str, Path]  # file name without group -> where it was resolved to
Way = Callable[[Path], Jars]  # resolves with a scratch folder, which goes away afterwards


class MissingJarsError(StoreError, FileNotFoundError):
    """The Delta jars are not in their folder, or could not be brought there."""


def coordinate() -> str:
    """Return the Maven coordinate of the Delta jar that fits the installed pyspark and delta-spark."""
    spark = ".".join(pyspark.__version__.split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{SCALA}:{version('delta-spark')}"


def jars_dir() -> Path:
    """Return where the jars belong: ``$STOREIO_JARS``, else a folder of this environment, one per coordinate."""
    chosen = os.environ.get("STOREIO_JARS")
    if chosen:
        return Path(chosen).absolute()
    return Path(sys.prefix) / "share" / "storeio" / "jars" / coordinate().replace(":", "-")


def delta_jars() -> list[Path]:
    """Return the jar files to start a session with, sorted.

    Raises:
        MissingJarsError: They are not there; says what to do.
    """
    jars = sorted(jars_dir().glob("*.jar"))
    if not _is_complete(jars):
        raise MissingJarsError(
            f"the Delta jars are not in {jars_dir()}: run make setup (or: python -m jobs.resolve_jars)"
        )
    return jars


def artifact(name: str) -> str:
    """Return a jar's name without version: ``jackson-core`` for ``jackson-core-2.13.5.jar``."""
    return re.sub(r"-\d+(\.\d+)*([.-][A-Za-z0-9]+)*\.jar$", "", name)


def not_bundled(jars: Jars, bundled: set[str]) -> Jars:
    """Return the jars that Spark does not bring along: a second version of those would break it."""
    return {name: path for name, path in jars.items() if artifact(name) not in bundled}


def by_ivy(scratch: Path) -> Jars:
    """Return what Spark's own Ivy resolves; ``scratch`` takes its cache."""
    empty_job = scratch / "resolve.py"
    empty_job.touch()
    settings = {
        "spark.jars.ivy": str(scratch / "ivy"),
        "spark.jars.packages": coordinate(),
        "spark.jars.excludes": ",".join(EXCLUDED),
        # Ivy takes a local Maven repository for complete, and fails where that holds a description without its jar.
        "spark.driver.extraJavaOptions": f'-Duser.home="{scratch}"',
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    flags = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    _run([str(submit), "--master", "local[1]", *flags, str(empty_job)], scratch)
    # Ivy puts the group before the name: io.delta_delta-storage-4.4.0.jar
    return {path.name.split("_", 1)[1]: path for path in (scratch / "ivy" / "jars").glob("*.jar")}


def by_maven(scratch: Path) -> Jars:
    """Return what Maven resolves with the user's settings; ``scratch`` takes the project that it wants."""
    group, name, number = coordinate().split(":")
    exclusions = "".join(
        f"<exclusion><groupId>{g}</groupId><artifactId>{a}</artifactId></exclusion>"
        for g, a in (text.split(":") for text in EXCLUDED)
    )
    (scratch / "pom.xml").write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>storeio</groupId><artifactId>jars</artifactId><version>1</version><dependencies><dependency>"
        f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{number}</version>"
        f"<exclusions>{exclusions}</exclusions></dependency></dependencies></project>\n"
    )
    out = scratch / "maven"
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={out}"]
    _run(["mvn", "--batch-mode", *goal], scratch)
    return {path.name: path for path in out.glob("*.jar")}


WAYS: tuple[tuple[str, Way], ...] = (("Ivy", by_ivy), ("Maven", by_maven))


def resolve(ways: tuple[tuple[str, Way], ...] = WAYS) -> Path:
    """Return the folder that holds the jars, after filling it if it does not yet.

    Raises:
        MissingJarsError: No way worked; holds the end of what each one said.
    """
    target = jars_dir()
    if _is_complete(list(target.glob("*.jar"))):
        return target
    if "STOREIO_JARS" in os.environ:  # someone else's folder: we use it, but neither fill nor clear it
        raise MissingJarsError(f"STOREIO_JARS={target} holds no Delta jars: unset it, or put {coordinate()} there")
    bundled = {artifact(path.name) for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    target.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for name, way in ways:
        print(f"resolving {coordinate()} through {name}, once: about half a minute", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix=".resolving-", dir=target.parent) as scratch:
            try:
                jars = not_bundled(way(Path(scratch)), bundled)
                _install(jars, Path(scratch) / "jars", target)
                return target
            except (OSError, subprocess.SubprocessError, StoreError) as error:
                failures.append(f"{name}: {error}")
                print(failures[-1], file=sys.stderr)
    raise MissingJarsError(f"{coordinate()} could not be resolved, neither through " + " nor ".join(n for n, _ in ways))


def _is_complete(jars: list[Path]) -> bool:
    return all(any(path.name.startswith(name) for path in jars) for name in NEEDED)


def _run(command: list[str], scratch: Path) -> None:
    """Run a resolver in ``scratch``; its output is shown only where it fails."""
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    run = subprocess.run(
        command, cwd=scratch, env=env, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    if run.returncode:
        said = [line for line in run.stdout.splitlines() if line.strip() and not line.startswith("\tat ")]
        tail = "\n  ".join(said[-8:])
        raise MissingJarsError(f"{Path(command[0]).name} ended with {run.returncode}\n  {tail}")


def _install(jars: Jars, staging: Path, target: Path) -> None:
    """Put the jars into ``target`` in one step, so that an interrupted set-up leaves no half of them."""
    if not _is_complete([Path(name) for name in jars]):
        raise MissingJarsError(f"resolved without error, but to {sorted(jars)}")
    staging.mkdir()
    for name, path in jars.items():
        shutil.copyfile(path, staging / name)
    shutil.rmtree(target, ignore_errors=True)  # not complete, or we would not be here
    staging.rename(target)


def main() -> int:
    """Return 0 once the jars are in their folder, else 8 after saying why not."""
    try:
        resolve()
    except MissingJarsError as error:
        print(error, file=sys.stderr)
        return 8
    except KeyboardInterrupt:
        print("storeio: cancelled", file=sys.stderr)
        return 32
    return 0


if __name__ == "__main__":
    stop_when_asked()
    sys.exit(main())
