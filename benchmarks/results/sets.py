"""Benchmark sets that are measured by ``mlbench bench``, read from the archives of their runs."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlbench.archive import RUN, SUFFIX, ArchiveError, bundle, opened
from mlbench.contract import records
from mlbench.contract.comparisons import Comparison
from mlbench.contract.records import Manifest, RunSet, Target
from mlbench.evaluation.inputs import Criteria
from mlbench.evaluation.verification import compare_files


@dataclass(frozen=True)
class Bench:
    """A benchmark set to measure."""

    name: str
    arguments: str
    """Arguments of ``mlbench bench`` without the name; arguments of own code follow ``--``."""

    @property
    def command(self) -> str:
        """Command that measures the set; after an interruption, it resumes the set."""
        options, *own = self.arguments.partition(" -- ")
        return "".join((f"mlbench bench {options} --name {self.name}", *own))

    def file(self, folder: Path) -> Path:
        """Return the file of its archives."""
        return folder / f"{self.name}{SUFFIX}"


@dataclass(frozen=True)
class Measured:
    """A benchmark set with archived runs."""

    run_set: RunSet
    comparison: Comparison
    """Comparison of the runs that count, by their own targets."""
    runs: tuple[records.Run, ...]
    manifests: tuple[Manifest, ...]
    file: Path
    """Published file with the archives of all runs."""

    def judged_by(self, target: Target) -> Comparison:
        """Return the comparison by another target."""
        return compare_files([self.file], Criteria(target=target))[0]


def read(bench: Bench, file: Path) -> Measured:
    """Return the set of a file that ``mlbench export`` has written, after checking all digests.

    Raises:
        ArchiveError: it cannot be read, is damaged, or has another set or none.
    """
    run_set = bundle.read_set(file)
    if run_set is None or run_set.name != bench.name:
        raise ArchiveError(f"{file} is no export of the set {bench.name}")
    comparison, _ = compare_files([file])
    documents: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        for path in bundle.archives_in(file, Path(folder)):
            with opened(path) as archive:
                documents.append(archive.document(RUN))
    counted = [document for document in documents if document["run"]["id"] in run_set.counted]
    return Measured(
        run_set,
        comparison,
        tuple(records.Run.from_fields(document["run"]) for document in counted),
        tuple(Manifest.from_fields(document["manifest"]) for document in counted),
        file,
    )
