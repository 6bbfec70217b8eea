"""Which Java Spark would start, and whether it will do.

Runs as a script before anything is installed (``python jobs/java.py``): standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

OLDEST = 17  # Spark 4 is compiled for it
SUPPORTED = "17 or 21"

# Package manager on PATH -> what to type; the first that is there is named.
INSTALL = {
    "apt-get": "apt-get install openjdk-17-jre-headless",
    "dnf": "dnf install java-17-openjdk-headless",
    "apk": "apk add openjdk17-jre-headless",
    "brew": "brew install openjdk@17",
}


def java_path() -> str | None:
    """Return the java that Spark's launcher takes, or None: ``JAVA_HOME`` comes before ``PATH``."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=f"{home}/bin")
    return shutil.which("java")


def parse_version(text: str) -> int | None:
    """Return the major version from what ``java -version`` prints, or None; ``1.8.0`` is 8."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def java_version(path: str) -> int | None:
    """Return the major version of the java at ``path``; None if it does not run or does not say."""
    try:
        run = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(run.stderr + run.stdout)


def java_problem() -> str | None:
    """Return the one line that says what is wrong with this machine's Java, or None if Spark can start."""
    path = java_path()
    version = java_version(path) if path else None
    if version is not None and version >= OLDEST:
        return None
    if path is None:
        home = os.environ.get("JAVA_HOME")
        found = f"none in JAVA_HOME={home}" if home else "none"
    else:
        found = f"java {version or 'of unknown version'} at {path}"
    install = next((INSTALL[tool] for tool in INSTALL if shutil.which(tool)), INSTALL["apt-get"])
    return f"java {SUPPORTED} is needed for Spark: {install} (found: {found})"


def main() -> int:
    """Return 0 if Spark can start, else print the line and return 1."""
    problem = java_problem()
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
