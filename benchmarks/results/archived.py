"""What was measured: benchmark sets, computed from the archives of their runs and nothing else."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.results.measuring import Bench
from master.archives.verifying import recompute
from master.models import Rank, Run
from master.results.compare import compare
from master.results.facts import facts_of
from master.results.query import ResultQuery, machines_of
from mlbench import bundle, records
from mlbench.archive import ROWS, RUN, Archive, ArchiveError, opened
from mlbench.records import Goal, Manifest, RunSet
from mlbench.results import Comparison


@dataclass(frozen=True)
class Measured:
    """A set whose runs are there."""

    bench: Bench
    found: RunSet
    comparison: Comparison
    """Of the runs that count, by their own goals."""
    runs: tuple[records.Run, ...]
    manifests: tuple[Manifest, ...]
    files: tuple[Path, ...]

    def judged_by(self, goal: Goal) -> Comparison:
        """Return the comparison by another goal."""
        return _compare(self.files, self.found, ResultQuery(target=goal))


@contextmanager
def read(bench: Bench, file: Path) -> Iterator[Measured]:
    """Give the set of a file that ``mlbench export`` has written, after checking all digests.

    Raises:
        ArchiveError: it cannot be read, is damaged, or has another set or none.
    """
    with TemporaryDirectory() as folder:
        files = tuple(bundle.archives_in(file, Path(folder)))
        about = bundle.about(file)
        if about is None or about["set"]["name"] != bench.name:
            raise ArchiveError(f"{file} is no export of the set {bench.name}")
        found = RunSet.from_fields(about["set"])
        documents = [_checked(one) for one in files]
        yield Measured(
            bench,
            found,
            _compare(files, found, ResultQuery()),
            tuple(records.Run.from_fields(one["run"]) for one in documents),
            tuple(Manifest.from_fields(one["manifest"]) for one in documents),
            files,
        )


def _checked(file: Path) -> dict[str, dict[str, object]]:
    with opened(file) as archive:
        if damaged := archive.check():
            raise ArchiveError(f"{file}: {'; '.join(damaged)}")
        document: dict[str, dict[str, object]] = archive.document(RUN)
        return document


def _compare(files: Sequence[Path], found: RunSet, query: ResultQuery) -> Comparison:
    results, facts = [], {}
    for file in files:
        with opened(file) as archive:
            run, ranks = _rows(archive)
            result = recompute(archive, query)
        cores = [rank.assignment.get("cpus", []) for rank in ranks]
        results.append(result)
        facts[run.id] = facts_of(run, result, machines_of(ranks), cores)
    return compare(results, facts, [found])


def _rows(archive: Archive) -> tuple[Run, list[Rank]]:
    """Return a run with the ranks of its latest attempt."""
    rows = archive.document(ROWS)
    run, ranks = Run(**rows["run"][0]), [Rank(**row) for row in rows["rank"]]
    latest = [rank for rank in ranks if rank.attempt == run.attempt]
    return run, sorted(latest, key=lambda rank: rank.rank)
