"""Make the faults on one database: ``python -m benchmarks.faults --kills 1000``."""

import argparse
import tempfile
from pathlib import Path

from benchmarks.faults import KILLS, on_postgresql, on_sqlite
from benchmarks.measure import machine

_DATABASES = {"sqlite": on_sqlite, "postgresql": on_postgresql}


def main() -> None:
    """Print a line for each fault."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help="how many processes are killed")
    parser.add_argument("--database", choices=_DATABASES, default="sqlite")
    options = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for row in _DATABASES[options.database](Path(folder), options.kills):
            print(row, flush=True)


if __name__ == "__main__":
    main()
