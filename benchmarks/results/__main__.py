"""Write the page of results from archives: ``python -m benchmarks.results FOLDER``."""

import sys
from pathlib import Path

from benchmarks.results import page
from benchmarks.results.sections import SECTIONS
from mlbench.archive import ArchiveError

if __name__ == "__main__":
    try:
        page.write(SECTIONS, Path(sys.argv[1]), Path(__file__).parents[2] / "docs")
    except ArchiveError as error:
        sys.exit(str(error))
