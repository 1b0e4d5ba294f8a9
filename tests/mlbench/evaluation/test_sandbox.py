"""The process that reads other people's archives has a memory limit and a timeout."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlbench import archive
from mlbench.archive import ArchiveError, bundle
from mlbench.evaluation import sandbox
from tests.support.results import make_archive, make_result

_MAIN = """
import resource
from mlbench.evaluation.__main__ import main

main("check", "none")
print(*resource.getrlimit(resource.RLIMIT_AS))
"""


def test_the_reading_process_has_a_memory_limit() -> None:
    told = subprocess.check_output([sys.executable, "-c", _MAIN], text=True)
    assert told.splitlines()[1] == f"{4 << 30} {4 << 30}"


def test_it_ends_after_the_timeout_or_when_the_caller_is_gone(tmp_path: Path) -> None:
    file = os.open(make_archive(tmp_path, make_result(1)), os.O_RDONLY)
    assert sandbox.damage(file, 60.0, lambda: False) == []
    for seconds, is_gone in ((0.0, False), (60.0, True)):
        with pytest.raises(ArchiveError, match="cannot be checked within the memory and time"):
            sandbox.damage(file, seconds, lambda gone=is_gone: gone)  # type: ignore[misc]
    os.close(file)


def test_a_file_that_is_not_an_archive_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    [checked] = sandbox.check([tmp_path / "text"])
    [problem] = checked.problems
    assert "text is no archive of a run, or a damaged one" in problem
    assert checked.notes == ()


@pytest.fixture
def sound(tmp_path: Path) -> list[Path]:
    """Archives of a published set."""
    file = Path(__file__).parents[3] / "docs" / "archives" / "results-lstm.mlbench"
    return bundle.archives_in(file, tmp_path)[:2]


def test_malformed_archives_are_named(tmp_path: Path, sound: list[Path]) -> None:
    with archive.opened(sound[0]) as found:
        told, rows = found.document(archive.RUN), found.document(archive.ROWS)
        series = [(name, [*found.read(name)]) for name in found.series]
    malformed: list[Any] = [[], "text", {"id": "one"}]
    runs = [{**told, name: value} for name in ("run", "set") for value in malformed]
    runs.append({name: document for name, document in told.items() if name != "run"})
    wrong = [tmp_path / f"wrong-{i}.mlbench" for i in range(len(runs))]
    for file, run in zip(wrong, runs, strict=True):
        archive.write(file, {archive.RUN: run, archive.ROWS: rows}, series)
    first, *named, last = sandbox.check([sound[0], *wrong, sound[1]])
    assert all(sound.run and not sound.problems for sound in (first, last))
    assert [checked.run for checked in named] == [None] * len(runs)
    assert all("its run is invalid" in checked.problems[0] for checked in named)


def test_an_archive_that_kills_its_reader_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(what: str, *files: str) -> list[Any]:
        if "bomb" in files:
            raise ArchiveError("it cannot be checked")
        return [{} for _ in files]

    monkeypatch.setattr(sandbox, "_ask", ask)
    files = [Path(name) for name in ("a", "b", "bomb", "c")]
    problems = [[*checked.problems] for checked in sandbox.check(files)]
    assert problems == [[], [], ["it cannot be checked"], []]
