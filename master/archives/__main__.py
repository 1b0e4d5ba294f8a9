"""``python -m master.archives FILE``: check an archive by itself, and print what is wrong."""

import json
import sys
from pathlib import Path

from master.archives.verifying import check
from mlbench.archive import ArchiveError, opened


def main() -> None:
    """Print sentences as a JSON list, which is empty if nothing is wrong."""
    try:
        with opened(Path(sys.argv[1])) as archive:
            problems = check(archive)
    except ArchiveError as error:
        problems = [str(error)]
    print(json.dumps(problems))


if __name__ == "__main__":
    main()
