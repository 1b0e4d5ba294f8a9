"""``python -m master.archives check|compare FILE``: what archives tell when nothing else is there.

``check`` prints what is wrong with an archive, ``compare`` the comparison of a set's runs.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from master.archives.comparing import compare_archives
from master.archives.verifying import check
from mlbench import bundle
from mlbench.archive import ArchiveError, opened


def main(what: str, file: Path) -> None:
    """Print JSON: a list of sentences, which is empty if nothing is wrong, or a comparison."""
    print(json.dumps(_check(file) if what == "check" else _compare(file)))


def _check(file: Path) -> list[str]:
    try:
        with opened(file) as archive:
            return check(archive)
    except ArchiveError as error:
        return [str(error)]


def _compare(file: Path) -> dict[str, Any]:
    found = bundle.read_set(file)
    if found is None:
        raise SystemExit(f"{file} is of no set")
    with TemporaryDirectory() as folder:
        files = bundle.archives_in(file, Path(folder))
        if problems := bundle.check(file, files):
            raise SystemExit("; ".join(problems))
        return compare_archives(files, found).to_fields()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
