"""Verification of archives: results recomputed from their samples, checked and compared.

An archive that is damaged, or whose run is invalid, raises an ArchiveError.

To forge a figure, one must also change the samples, clocks, times, digests and the task's own
sentence. That is more work, but it proves nothing: a digest is not a signature.
"""

import re
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlbench.archive import (
    DIAGNOSES,
    ROWS,
    RUN,
    Archive,
    ArchiveError,
    SeriesName,
    bundle,
    file_member,
    opened,
)
from mlbench.contract import names
from mlbench.contract.comparisons import Comparison
from mlbench.contract.diagnosis import Diagnosis
from mlbench.contract.records import Manifest, Run, RunSet
from mlbench.contract.results import Result
from mlbench.contract.series import EXACT_INTEGERS, format_value, number_or_text
from mlbench.evaluation import official_rules
from mlbench.evaluation.comparison import compare
from mlbench.evaluation.inputs import (
    ENDED_BADLY,
    OWN_CRITERIA,
    Column,
    Columns,
    Criteria,
    RankRow,
    RunRow,
)
from mlbench.evaluation.result import RunContext, evaluate, read_series
from mlbench.evaluation.run_attributes import ORIGIN, Facts, attributes_of

# --- Results of archives ---


@contextmanager
def errors_of_archives() -> Iterator[None]:
    """Raise the errors of an invalid run's description, wherever they occur, as ArchiveError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ArchiveError(f"its run is invalid: {error!r}") from None


@errors_of_archives()
def context_of(archive: Archive, criteria: Criteria = OWN_CRITERIA) -> RunContext:
    """Return the ended run of an archive with everything but its series."""
    rows = archive.document(ROWS)
    run = RunRow.from_fields(rows["run"][0])
    ranks = [RankRow.from_fields(row) for row in rows["rank"]]
    documents = archive.document(DIAGNOSES) if DIAGNOSES in archive.members else ()
    diagnoses = [Diagnosis.from_fields(fields) for fields in documents]
    return RunContext(run, ranks, float(rows["run"][0]["finished_at"]), criteria, diagnoses)


@errors_of_archives()
def recompute(archive: Archive, context: RunContext) -> Result:
    """Compute the result of an archive's run from its samples."""

    def read(metrics: Collection[str], since_us: int) -> Columns:
        columns: dict[str, dict[str, Column]] = {}
        for name in archive.series:
            if not name.pod and (name.metric in metrics or str(name) in metrics):
                column = _column(archive, name, since_us)
                if column.values:
                    columns.setdefault(name.metric, {})[name.rank] = column
        return columns

    return evaluate(context, read_series(context, read))


@errors_of_archives()
def installation_of(archive: Archive) -> str:
    """Return the host of the master that sealed an archive; empty if unknown.

    ArchiveError if the run or its manifest cannot be decoded.
    """
    document = archive.document(RUN)
    Run.from_fields(document["run"])
    Manifest.from_fields(document["manifest"])
    return str(document.get("installation", ""))


def _column(archive: Archive, name: SeriesName, since_us: int) -> Column:
    """Read the numbers of a series, in order of time."""
    times, values = array("q"), array("d")
    for piece in archive.read(name):
        for i, (time_us, value) in enumerate(zip(piece.times_us, piece.values, strict=True)):
            text = piece.more[i].text if i in piece.more else None
            # As in the API, an integer with more digits than a float has is not a number.
            if text is None and abs(value) > EXACT_INTEGERS:
                text = format_value(value)
            number = value if text is None else number_or_text(text)
            if isinstance(number, float) and time_us >= since_us:
                times.append(time_us)
                values.append(number)
    # Values that Prometheus did not hold come last.
    if not archive.series[name].kept:
        return Column(times, values)
    order = sorted(range(len(times)), key=times.__getitem__)
    return Column([times[i] for i in order], [values[i] for i in order])


# --- Checks ---

# Allowed deviation between a clock and the times of its samples, because these are rounded to
# milliseconds and corrected for clock offsets.
_SECONDS, _SHARE = 0.5, 0.02
# A rule decides these figures, and rules change. A sealed judgement stays as it was made.
_JUDGEMENTS = ("division", "rule_violations", "disturbed", "findings")
# These figures have another definition in results without the later field on the right:
# worker-seconds include the queue and end with each rank, and waiting is computed for spans of
# seconds instead of steps.
_REDEFINED = {
    "cost": "training_time_problem",
    "goodput": "sampled_steps",
    "stragglers": "sampled_steps",
}
# For a run that ended badly, these figures had the values of each rank's last report.
_REDEFINED_TOTALS = dict.fromkeys(
    (
        *("samples", "training_seconds", "samples_per_second", "phases", "communication_share"),
        *("step_seconds", "ranks"),
    ),
    "training_time_problem",
)


def check(archive: Archive) -> list[str]:
    """Check an archive without a master; return its problems, a sentence each."""
    return examine(archive)[0]


@errors_of_archives()
def examine(archive: Archive) -> tuple[list[str], list[str]]:
    """Check an archive without a master; return its problems and its notes, a sentence each.

    Problems: digests differ, samples are missing, the samples give another result, or clocks, times
    and the task's own sentence contradict each other. Notes, if there are no problems: judgements
    differ by today's rules, or figures have another definition today.
    """
    if damage := archive.check():
        return damage, []
    document = archive.document(RUN)
    sealed, today = document["result"], recompute(archive, context_of(archive)).to_fields()
    later_fields = _REDEFINED | (_REDEFINED_TOTALS if sealed["state"] in ENDED_BADLY else {})
    redefined = [name for name in sealed if later_fields.get(name, name) not in sealed]
    problems = []
    recorded = sum(stream["recorded"] for stream in archive.document(ROWS)["stream"])
    series = [held for name, held in archive.series.items() if not name.pod]
    count = sum(held.samples + held.kept for held in series)
    if count != recorded:
        problems.append(f"{recorded} samples were recorded, and it has {count}")
    # Files that were left with their rank have no member.
    listed = {
        file_member(file["attempt"], file["rank"], file["name"]): file["sha256"]
        for file in document.get("files", [])
        if not file["left"]
    }
    problems += [
        f"{member} is not the file that it lists"
        for member, sha256 in listed.items()
        if archive.members.get(member) != sha256
    ]
    problems += [
        f"its samples give another result: {name} is {today[name]}, not {sealed[name]}"
        for name in sealed
        if name not in (*_JUDGEMENTS, *redefined) and not _agree(sealed, today, name)
    ]
    problems += contradictions(archive)
    if problems:
        return problems, []
    judged = [name for name in _JUDGEMENTS if name in sealed and sealed[name] != today[name]]
    return [], [
        *(f"judged by the rules at its sealing: {name} differs today" for name in judged),
        *(f"not recomputed: {name} has another definition today" for name in redefined),
    ]


def _agree(sealed: Mapping[str, Any], today: Mapping[str, Any], name: str) -> bool:
    """Compare a figure of two results; parts that the sealed one lacks do not count.

    Sentences may have another wording, so only their number counts.
    """
    was, now = sealed[name], today.get(name, sealed[name])
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        return all(_agree(was, now, part) for part in was)
    if isinstance(was, list) and isinstance(now, list):
        pairs = [({"": old}, {"": new}) for old, new in zip(was, now, strict=False)]
        is_text = name == "clock_faults"
        return len(was) == len(now) and (is_text or all(_agree(*pair, "") for pair in pairs))
    return name in ("text", *_JUDGEMENTS) or bool(was == now)


def contradictions(archive: Archive) -> list[str]:
    """Return the contradictions between parts of an archive, a sentence each."""
    problems = list(_clock_contradictions(archive))
    # The task's own sentence has the time to the target.
    reached = archive.document(RUN)["result"].get("time_to_target") or {}
    seconds = reached.get("training_seconds")
    texts = [
        more.text
        for name in archive.series
        if name.metric == names.TASK_RESULT
        for piece in archive.read(name)
        for more in piece.more.values()
        if more.text
    ]
    matches = [re.search(r" reached in ([\d.]+) seconds", text) for text in texts]
    claims = [match[1] for match in matches if match]
    if claims and seconds is not None:
        claim = float(claims[-1])
        if abs(claim - seconds) > max(_SECONDS, _SHARE * seconds):
            problem = f"the task states {claim} s until its target, its result {seconds:.3f} s"
            problems.append(problem)
    return problems


def _clock_contradictions(archive: Archive) -> Iterator[str]:
    """Yield the ranks whose clocks of training and evaluation contradict their samples' times."""
    [run], result = archive.document(ROWS)["run"], archive.document(RUN)["result"]
    ranks = (result.get("goodput") or {}).get("ranks", ())
    restarted = run.get("attempt") != 1 or any(rank.get("restarts") for rank in ranks)
    if restarted or result.get("clock_faults"):
        return  # No clock runs until a restarted training resumes.
    for name in archive.series:
        evaluation = SeriesName(names.phase_metric("evaluation"), name.rank)
        if name.pod or name.metric != names.TRAIN_SECONDS or evaluation not in archive.series:
            continue
        training, evaluating = _values(archive, name), _values(archive, evaluation)
        times_us = sorted(training.keys() & evaluating.keys())
        if len(times_us) > 1:
            first, last = (training[us] + evaluating[us] for us in (times_us[0], times_us[-1]))
            counted, passed = last - first, (times_us[-1] - times_us[0]) / 1e6
            if abs(counted - passed) > max(_SECONDS, _SHARE * passed):
                clocks = f"the clocks of rank {name.rank} tell {counted:.2f} s"
                yield f"{clocks}, and the dates of its samples {passed:.2f} s"


def _values(archive: Archive, name: SeriesName) -> dict[int, float]:
    return {
        time_us: value
        for piece in archive.read(name, kept=False)
        for time_us, value in zip(piece.times_us, piece.values, strict=True)
    }


# --- Comparison of archives ---


def compare_files(
    files: Sequence[Path], criteria: Criteria = OWN_CRITERIA
) -> tuple[Comparison, Mapping[int, str]]:
    """Compare the runs of archives, and the counted runs of sets' files.

    If two files have runs with the same ids, the runs of the later file get larger ids. Also
    returns the digest of each run's archive by these ids. ArchiveError if a file is damaged, or
    repeats a run.
    """
    parts: list[_Runs] = []
    digests: set[str] = set()
    for file in files:
        with TemporaryDirectory() as folder:
            archives, run_set = bundle.archives_in(file, Path(folder)), bundle.read_set(file)
            problems = bundle.check(file, archives) if run_set else []
            for i, path in enumerate(archives, 1):
                with opened(path, "it" if path == file else f"archive {i}") as archive:
                    problems += archive.check()
                    if archive.digest in digests:
                        problems.append("another file has its run, too")
                    digests.add(archive.digest)
            if problems:
                raise ArchiveError(f"{file}: {'; '.join(problems)}")
            part = _read_runs(archives, run_set, criteria)
        used_ids = {run_id for other in parts for run_id in other.results}
        parts.append(part if used_ids.isdisjoint(part.results) else part.numbered(max(used_ids)))
    facts: dict[int, Facts] = {}
    for part in parts:
        origin = {ORIGIN: part.installation} if len(parts) > 1 else {}
        facts |= {run_id: {**of_run, **origin} for run_id, of_run in part.facts.items()}
    results = [result for part in parts for result in part.results.values()]
    sets = [part.run_set for part in parts if part.run_set]
    digests_by_id = {run_id: part.digests[run_id] for part in parts for run_id in part.results}
    return compare(results, facts, sets, criteria.group_by), digests_by_id


@dataclass(frozen=True)
class _Runs:
    """Runs of a file that are compared, in order, by their ids."""

    results: Mapping[int, Result]
    facts: Mapping[int, Facts]
    run_set: RunSet | None
    """Benchmark set of the runs; None for a single archive."""
    installation: str
    digests: Mapping[int, str]
    """Digest of each run's archive."""

    def numbered(self, more: int) -> "_Runs":
        """Return the same runs with ids that are larger by ``more``."""
        slots = [
            replace(slot, trials=tuple(replace(t, run_id=t.run_id + more) for t in slot.trials))
            for slot in (self.run_set.slots if self.run_set else ())
        ]
        return replace(
            self,
            results={i + more: replace(run, run_id=i + more) for i, run in self.results.items()},
            facts={i + more: of_run for i, of_run in self.facts.items()},
            digests={i + more: digest for i, digest in self.digests.items()},
            run_set=self.run_set and replace(self.run_set, slots=tuple(slots)),
        )


def _read_runs(files: Sequence[Path], run_set: RunSet | None, criteria: Criteria) -> _Runs:
    """Compute the results of archives; of a set, only the counted ones."""
    results, facts, digests, installations = {}, {}, {}, {}
    for file in files:
        with opened(file) as archive:
            context = context_of(archive, criteria)
            run_id = context.run.id
            if run_set is None or run_id in run_set.counted:
                results[run_id] = recompute(archive, context)
                facts[run_id] = attributes_of(context.run, context.latest, results[run_id])
                digests[run_id] = archive.digest
                installations[run_id] = installation_of(archive)
    order = run_set.counted if run_set else [*results]
    if not order or results.keys() != {*order}:
        raise ArchiveError(f"not all runs that count are there: {', '.join(map(str, order))}")
    in_order = {run_id: results[run_id] for run_id in order}
    # The words of the version that reads the file, not of the one that wrote it.
    run_set = run_set and replace(run_set, text=official_rules.describe(run_set.slots))
    return _Runs(in_order, facts, run_set, installations[order[0]], digests)
