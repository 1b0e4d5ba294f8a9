"""Comparing the runs of a set by their archives alone, and by nothing that the set says of them."""

from collections.abc import Sequence
from pathlib import Path

from master.archives.verifying import recompute, rows_of
from master.results.query import ResultQuery, machines_of
from mlbench.archive import opened
from mlbench.evaluation.compare import compare
from mlbench.evaluation.facts import facts_of
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
            run, ranks = rows_of(archive)
            if run.id not in found.counted:
                continue
            result = recompute(archive, query or ResultQuery())
        ranks = [rank for rank in ranks if rank.attempt == run.attempt]
        ranks.sort(key=lambda rank: rank.rank)
        cores = [rank.assignment.get("cpus", []) for rank in ranks]
        results[run.id] = result
        facts[run.id] = facts_of(run, result, machines_of(ranks), cores)
    return compare([results[run_id] for run_id in found.counted], facts, [found])
