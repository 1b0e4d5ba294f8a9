"""Every published archive verifies, and the results page links it."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.processes import run_text

_DOCS = Path(__file__).parents[2] / "docs"
_ARCHIVES = sorted((_DOCS / "archives").glob("*.mlbench"))


_SMALLEST = min(_ARCHIVES, key=lambda file: file.stat().st_size)


@pytest.mark.parametrize(
    "file",
    [pytest.param(f, marks=[] if f == _SMALLEST else pytest.mark.slow) for f in _ARCHIVES],
    ids=lambda file: file.stem,
)
def test_a_published_archive_verifies(file: Path, tmp_path: Path) -> None:
    process = run_text([sys.executable, "-m", "mlbench", "verify", str(file)], cwd=tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.endswith("verified: nothing is missing or damaged\n")


def test_the_page_links_every_archive() -> None:
    page = (_DOCS / "results.md").read_text()
    assert sorted(re.findall(r"\]\(archives/([\w.-]+)\)", page)) == [
        file.name for file in _ARCHIVES
    ]
