"""``storeio`` and ``python -m storeio``: the way into the command line.

It is small, so that requests to stop are answered as later on while all else is still being imported.
"""

from __future__ import annotations

import contextlib
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and end the process with the exit code of the contract."""
    try:
        from storeio.process import own_process

        own_process()
        from storeio import cli

        cli.main()
    except KeyboardInterrupt:  # outside of any verb
        from storeio.process import end_undisturbed

        end_undisturbed()
        with contextlib.suppress(OSError):
            print("storeio: cancelled", file=sys.stderr, flush=True)
        sys.exit(32)  # EXIT_CANCELLED of storeio.results, which may not be there yet


if __name__ == "__main__":
    main()
