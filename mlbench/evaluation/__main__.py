"""``python -m mlbench.evaluation COMMAND``: damage FILE…, check FILE…, compare CRITERIA FILE….

``mlbench.evaluation.sandbox`` starts it.

It prints ``{"answer": …}`` or ``{"refused": why}`` as JSON.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from mlbench.archive import RUN, ArchiveError, opened
from mlbench.evaluation.inputs import Criteria
from mlbench.evaluation.sandbox import DESCRIPTORS, MAX_MEMORY, CheckedArchive
from mlbench.evaluation.verification import compare_files, errors_of_archives, examine


def main(command: str, *arguments: str) -> None:
    """Run a command and print its answer."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    answer: dict[str, Any]
    try:
        match command, arguments:
            case "check", files:
                answer = {"answer": _check(*files)}
            case "compare", (criteria, *files):
                decoded = Criteria.from_fields(json.loads(criteria))
                comparison, digests = compare_files([Path(file) for file in files], decoded)
                fields = {"comparison": comparison.to_fields(), "digests": [*digests.items()]}
                answer = {"answer": fields}
            case "damage", files:
                problems = []
                for file in files:
                    name = "it" if file.startswith(DESCRIPTORS) else file
                    with opened(Path(file), name) as archive:
                        problems += archive.check()
                answer = {"answer": problems}
            case _:
                sys.exit(f"no such command: {command}")
    except ArchiveError as error:
        answer = {"refused": str(error)}
    except MemoryError:
        raise SystemExit(1) from None
    print(json.dumps(answer))


def _check(*files: str) -> list[dict[str, Any]]:
    """Return the fields of a ``CheckedArchive`` for each archive.

    An archive that cannot be read is a problem, and has no run.
    """
    checked: list[dict[str, Any]] = []
    shows_progress = len(files) > 1 and sys.stderr.isatty()
    for file in files:
        try:
            with opened(Path(file)) as archive, errors_of_archives():
                document = archive.document(RUN)
                sealed = {"run": document["run"], "in_set": document.get("set")}
                CheckedArchive.from_fields(sealed)
                problems, notes = examine(archive)
                checked.append({**sealed, "problems": problems, "notes": notes})
        except ArchiveError as error:
            checked.append({"problems": [str(error)]})
        if shows_progress:
            end = "\n" if len(checked) == len(files) else ""
            print(f"\rchecked {len(checked)} of {len(files)}", end=end, file=sys.stderr, flush=True)
    return checked


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    # Threads of pyarrow may still be starting, and would abort the process as the interpreter ends.
    os._exit(0)
