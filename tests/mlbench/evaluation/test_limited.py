"""What reads the archives of others has a limit of memory and of time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlbench.archive import ArchiveError
from mlbench.evaluation import limited
from tests.support.results import make_archive, make_result

_MAIN = """
import resource
from mlbench.evaluation.__main__ import main

main("check", "none")
print(*resource.getrlimit(resource.RLIMIT_AS))
"""


def test_the_process_that_reads_has_a_limit_of_memory() -> None:
    told = subprocess.check_output([sys.executable, "-c", _MAIN], text=True)
    assert told.splitlines()[1] == f"{4 << 30} {4 << 30}"


def test_it_ends_after_its_time_and_with_who_waits(tmp_path: Path) -> None:
    file = os.open(make_archive(tmp_path, make_result(1)), os.O_RDONLY)
    assert limited.damage(file, 60.0, lambda: False) == []
    for seconds, is_gone in ((0.0, False), (60.0, True)):
        with pytest.raises(ArchiveError, match="cannot be checked within the memory and time"):
            limited.damage(file, seconds, lambda gone=is_gone: gone)  # type: ignore[misc]
    os.close(file)


def test_what_is_no_archive_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    [checked] = limited.check([tmp_path / "text"])
    [problem], notes = checked.problems, checked.notes
    assert "text is no archive of a run, or a damaged one" in problem
    assert notes == []
