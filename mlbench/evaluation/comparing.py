"""Comparing runs by their archives alone, and by nothing that these say of their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mlbench.archive import ArchiveError, bundle, opened
from mlbench.contract.comparisons import Comparison
from mlbench.contract.records import Manifest, RunSet
from mlbench.contract.results import Result
from mlbench.evaluation.archived import context_of, origin_of, recompute
from mlbench.evaluation.comparison import compare
from mlbench.evaluation.inputs import OWN_CRITERIA, Criteria
from mlbench.evaluation.run_attributes import ORIGIN, Facts, facts_of


def compare_files(
    files: Sequence[Path], criteria: Criteria = OWN_CRITERIA
) -> tuple[Comparison, Manifest]:
    """Compare the runs of archives, and of sets' files those that count.

    Of two files that have runs of the same ids, those of the later one get larger ids. Also returns
    the manifest of the first run. ArchiveError if a file is damaged, or repeats a run.
    """
    parts: list[_Runs] = []
    seen: set[str] = set()
    for file in files:
        with TemporaryDirectory() as folder:
            archives, run_set = bundle.archives_in(file, Path(folder)), bundle.read_set(file)
            problems = bundle.check(file, archives) if run_set else []
            for i, path in enumerate(archives, 1):
                with opened(path, "it" if path == file else f"archive {i}") as archive:
                    problems += archive.check()
                    if archive.digest in seen:
                        problems.append("another file has its run, too")
                    seen.add(archive.digest)
            if problems:
                raise ArchiveError(f"{file}: {'; '.join(problems)}")
            part = _read(archives, run_set, criteria)
        taken = {run_id for other in parts for run_id in other.results}
        parts.append(part if taken.isdisjoint(part.results) else part.numbered(max(taken)))
    return _compare(parts), parts[0].manifest


@dataclass(frozen=True)
class _Runs:
    """The runs of a file that are compared, in order, by their ids."""

    results: Mapping[int, Result]
    facts: Mapping[int, Facts]
    found: RunSet | None
    """The set that they are of."""
    installation: str
    manifest: Manifest
    """Of the first."""

    def numbered(self, more: int) -> "_Runs":
        """Return the same runs with ids that are so much larger."""
        places = [
            replace(place, trials=tuple(replace(o, run_id=o.run_id + more) for o in place.trials))
            for place in (self.found.places if self.found else ())
        ]
        return replace(
            self,
            results={i + more: replace(its, run_id=i + more) for i, its in self.results.items()},
            facts={i + more: of_run for i, of_run in self.facts.items()},
            found=self.found and replace(self.found, places=tuple(places)),
        )


def _read(files: Sequence[Path], run_set: RunSet | None, criteria: Criteria) -> _Runs:
    """Compute the results of archives, of a set those that count."""
    results, facts, about = {}, {}, {}
    for file in files:
        with opened(file) as archive:
            context = context_of(archive, criteria)
            run_id = context.run.id
            if run_set is None or run_id in run_set.counted:
                results[run_id] = recompute(archive, context)
                facts[run_id] = facts_of(context.run, context.latest, results[run_id])
                about[run_id] = origin_of(archive)
    order = run_set.counted if run_set else [*results]
    if not order or results.keys() != {*order}:
        raise ArchiveError(f"not all runs that count are there: {', '.join(map(str, order))}")
    return _Runs({i: results[i] for i in order}, facts, run_set, *about[order[0]])


def _compare(parts: Sequence[_Runs]) -> Comparison:
    facts: dict[int, Facts] = {}
    for part in parts:
        origin = {ORIGIN: part.installation} if len(parts) > 1 else {}
        facts |= {run_id: {**of_run, **origin} for run_id, of_run in part.facts.items()}
    results = [one for part in parts for one in part.results.values()]
    return compare(results, facts, [part.found for part in parts if part.found])
