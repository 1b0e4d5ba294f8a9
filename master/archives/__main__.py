"""``python -m master.archives damage|check|compare FILE``: what archives tell by themselves.

``damage`` prints which digests differ, ``check`` all that is wrong with an archive, ``compare`` the
comparison of a set's runs. A file may be made to fill memory: so this process has a limit.
"""

import json
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlbench import bundle
from mlbench.archive import ArchiveError, opened

_MOST_MEMORY = 4 << 30


def main(what: str, file: Path) -> None:
    """Print JSON: a list of sentences, which is empty if nothing is wrong, or a comparison."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    print(json.dumps(_compare(file) if what == "compare" else _problems(file, what)))


def _problems(file: Path, what: str) -> list[str]:
    try:
        with opened(file) as archive:
            if what == "damage":
                return archive.check()
            from master.archives.verifying import check  # noqa: PLC0415 - takes half a second

            return check(archive)
    except ArchiveError as error:
        return [str(error)]


def _compare(file: Path) -> dict[str, Any]:
    from mlbench.evaluation.comparing import compare_archives  # noqa: PLC0415 - as above

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
