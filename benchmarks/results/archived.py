"""What was measured: benchmark sets, computed from the archives of their runs and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.results.measuring import Bench
from mlbench import bundle, records
from mlbench.archive import RUN, ArchiveError, opened
from mlbench.evaluation.comparing import compare_archives
from mlbench.evaluation.criteria import Criteria
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
    file: Path
    """All of them in one, as it is published."""

    def judged_by(self, goal: Goal) -> Comparison:
        """Return the comparison by another goal."""
        return compare_archives(self.files, self.found, Criteria(target=goal))


@contextmanager
def read(bench: Bench, file: Path) -> Iterator[Measured]:
    """Give the set of a file that ``mlbench export`` has written, after checking all digests.

    Raises:
        ArchiveError: it cannot be read, is damaged, or has another set or none.
    """
    with TemporaryDirectory() as folder:
        files = tuple(bundle.archives_in(file, Path(folder)))
        found = bundle.read_set(file)
        if found is None or found.name != bench.name:
            raise ArchiveError(f"{file} is no export of the set {bench.name}")
        if problems := bundle.check(file, files):
            raise ArchiveError(f"{file}: {'; '.join(problems)}")
        documents = [one for one in map(_checked, files) if one["run"]["id"] in found.counted]
        yield Measured(
            bench,
            found,
            compare_archives(files, found),
            tuple(records.Run.from_fields(one["run"]) for one in documents),
            tuple(Manifest.from_fields(one["manifest"]) for one in documents),
            files,
            file,
        )


def _checked(file: Path) -> dict[str, dict[str, object]]:
    with opened(file) as archive:
        if damaged := archive.check():
            raise ArchiveError(f"{file}: {'; '.join(damaged)}")
        document: dict[str, dict[str, object]] = archive.document(RUN)
        return document
