"""``python -m mlbench.evaluation damage|check FILE``, ``compare CRITERIA FILE…``: see ``limited``.

It prints ``{"answer": …}`` or ``{"refused": why}`` as JSON.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

from mlbench.archive import ArchiveError, opened
from mlbench.evaluation.checking import check
from mlbench.evaluation.comparing import compare_files
from mlbench.evaluation.criteria import Criteria
from mlbench.evaluation.limited import MOST_MEMORY


def main(what: str, *words: str) -> None:
    """Print the answer."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    try:
        content: Any = _compare(*words) if what == "compare" else _check(what, *words)
        answer = {"answer": content}
    except ArchiveError as error:
        answer = {"refused": str(error)}
    except MemoryError:
        raise SystemExit(1) from None
    print(json.dumps(answer))


def _check(what: str, file: str) -> list[str]:
    with opened(Path(file), "it" if what == "damage" else None) as archive:
        return archive.check() if what == "damage" else check(archive)


def _compare(criteria: str, *files: str) -> dict[str, Any]:
    asked = Criteria.from_fields(json.loads(criteria))
    comparison, manifest = compare_files([Path(file) for file in files], asked)
    return {"comparison": comparison.to_fields(), "manifest": manifest.to_fields()}


if __name__ == "__main__":
    main(*sys.argv[1:])
