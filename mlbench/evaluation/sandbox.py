"""Sandbox for imported archives: a separate process with limited memory reads them.

A file can fill memory, or make libraries abort when memory is short. A memory limit applies to a
whole process permanently, so a server or a notebook cannot set one for itself. A file that cannot
be read within the limits of memory and time raises an ArchiveError.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal

from mlbench.archive import ArchiveError
from mlbench.contract.comparisons import Comparison
from mlbench.contract.records import Record, Run
from mlbench.evaluation.inputs import OWN_CRITERIA, Criteria
from mlbench.evaluation.official_rules import SetAtSealing

MAX_MEMORY = 4 << 30
DESCRIPTORS = "/dev/fd/"
_UNREADABLE = "it cannot be checked within the memory and time for that"


@dataclass(frozen=True)
class CheckedArchive(Record):
    """Result of checking an archive: the answer of ``python -m mlbench.evaluation check``."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    run: Run | None = None
    """Run as it was sealed; None if it could not be read."""
    in_set: SetAtSealing | None = None
    """Benchmark set of the run; None without one."""


def check(files: Sequence[Path]) -> list[CheckedArchive]:
    """Return the problems and the notes of each archive, as ``verification.examine`` does.

    One process reads all of them. Its progress goes to stderr, if that is a terminal. If an
    archive ends the process, the two halves are checked apart, until that archive is alone.
    """
    try:
        return [CheckedArchive.from_fields(fields) for fields in _ask("check", *map(str, files))]
    except ArchiveError as error:
        if len(files) <= 1:
            return [CheckedArchive((str(error),)) for _ in files]
        half = len(files) // 2
        return check(files[:half]) + check(files[half:])


def check_digests(files: Sequence[Path]) -> None:
    """Compare all digests of archives; raise an ArchiveError if any differs."""
    if damaged := _ask("damage", *map(str, files)):
        raise ArchiveError("; ".join(damaged))


def damage(file: int, seconds: float, is_gone: Callable[[], bool]) -> list[str]:
    """Return the digests of an archive that differ, given its file's descriptor.

    The check may take ``seconds``. It ends early when ``is_gone`` says that no client waits.
    """
    return list(_ask("damage", f"{DESCRIPTORS}{file}", keep=[file], until=(seconds, is_gone)))


def compare(
    files: Sequence[Path], criteria: Criteria = OWN_CRITERIA
) -> tuple[Comparison, Mapping[int, str]]:
    """Compare the runs of files, as ``verification.compare_files`` does."""
    answer = _ask("compare", json.dumps(criteria.to_fields()), *map(str, files))
    return Comparison.from_fields(answer["comparison"]), dict(answer["digests"])


def _ask(
    command: Literal["check", "damage", "compare"],
    *arguments: str,
    keep: Sequence[int] = (),
    until: tuple[float, Callable[[], bool]] = (inf, lambda: False),
) -> Any:
    seconds, is_gone = until
    deadline = time.monotonic() + seconds
    program = [sys.executable, "-P", "-m", "mlbench.evaluation", command, *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, pass_fds=keep) as process:
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    if is_gone() or time.monotonic() > deadline:
                        raise ArchiveError(_UNREADABLE) from None
        finally:
            process.kill()
    if process.returncode:
        raise ArchiveError(_UNREADABLE)
    answer = json.loads(output)
    if "refused" in answer:
        raise ArchiveError(answer["refused"])
    return answer["answer"]
