"""``python -m bench``: measure."""

from bench.measure import main

if __name__ == "__main__":
    main()
