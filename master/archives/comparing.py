"""Comparing the runs of a set by their archives alone, and by nothing that the set says of them."""

from collections.abc import Sequence
from pathlib import Path

from master.archives.verifying import recompute
from master.models import Rank, Run
from master.results.compare import compare
from master.results.facts import facts_of
from master.results.query import ResultQuery, machines_of
from mlbench.archive import ROWS, Archive, opened
from mlbench.records import RunSet
from mlbench.results import Comparison


def compare_archives(
    files: Sequence[Path], found: RunSet, query: ResultQuery | None = None
) -> Comparison:
    """Compare the runs of a set that count, given the archives of all of its runs.

    Raises:
        ArchiveError: one cannot be read.
    """
    results, facts = {}, {}
    for file in files:
        with opened(file) as archive:
            run, ranks = _rows(archive)
            if run.id not in found.counted:
                continue
            result = recompute(archive, query or ResultQuery())
        cores = [rank.assignment.get("cpus", []) for rank in ranks]
        results[run.id] = result
        facts[run.id] = facts_of(run, result, machines_of(ranks), cores)
    return compare([results[run_id] for run_id in found.counted], facts, [found])


def _rows(archive: Archive) -> tuple[Run, list[Rank]]:
    """Return a run with the ranks of its latest attempt."""
    rows = archive.document(ROWS)
    run, ranks = Run(**rows["run"][0]), [Rank(**row) for row in rows["rank"]]
    latest = [rank for rank in ranks if rank.attempt == run.attempt]
    return run, sorted(latest, key=lambda rank: rank.rank)
