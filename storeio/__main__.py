"""``python -m storeio``: the command line where no script is installed."""

from storeio.cli import main

main()
