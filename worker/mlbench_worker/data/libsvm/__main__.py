"""Parse files before runs without write access: ``python -m mlbench_worker.data.libsvm FILE…``."""

import argparse
import sys
from pathlib import Path

from mlbench_worker.data.libsvm.table import open_table
from mlbench_worker.ranks.rank_process import DataError


def main() -> None:
    """Parse each file, and print its size."""
    parser = argparse.ArgumentParser(
        prog="python -m mlbench_worker.data.libsvm", description=__doc__
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    for file in parser.parse_args().files:
        if not file.is_file():
            sys.exit(f"file {file} not found")
        try:
            _, figures = open_table(file)
        except DataError as error:
            sys.exit(str(error))
        print(f"{file}: {figures.rows} rows of {figures.width} features, parsed")


if __name__ == "__main__":
    main()
