"""Verification of archives: results recomputed from their samples, checked and compared.

An archive that is damaged, or whose run is invalid, raises an ArchiveError.

Whoever changes a figure and all digests must change samples, clocks, dates and the task's own
sentence alike. That is more work, but no proof: a digest is no signature.
"""

import re
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mlbench.archive import (
    AUTOPSIES,
    ROWS,
    RUN,
    Archive,
    ArchiveError,
    Piece,
    SeriesName,
    bundle,
    file_member,
    opened,
)
from mlbench.contract import names
from mlbench.contract.autopsy import Autopsy
from mlbench.contract.comparisons import Comparison
from mlbench.contract.records import Manifest, RunSet
from mlbench.contract.results import Result
from mlbench.contract.series import EXACT_INTEGERS, number_or_text, spell
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
from mlbench.evaluation.run_attributes import ORIGIN, Facts, facts_of

# --- Results of archives ---


@contextmanager
def errors_of_archives() -> Iterator[None]:
    """Have what a description of no run causes, wherever it is used first, be an ArchiveError."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ArchiveError(f"its run is invalid: {error!r}") from None


@errors_of_archives()
def context_of(archive: Archive, criteria: Criteria = OWN_CRITERIA) -> RunContext:
    """Return the run of an archive, which has ended, to be evaluated."""
    rows = archive.document(ROWS)
    run = RunRow.from_fields(rows["run"][0])
    ranks = [RankRow.from_fields(row) for row in rows["rank"]]
    listed = archive.document(AUTOPSIES) if AUTOPSIES in archive.members else ()
    asked = [Autopsy.from_fields(fields) for fields in listed]
    return RunContext(run, ranks, float(rows["run"][0]["finished_at"]), criteria, asked)


@errors_of_archives()
def recompute(archive: Archive, context: RunContext) -> Result:
    """Compute the result of an archive's run from its samples."""
    return evaluate(context, read_series(context, partial(_read_columns, archive)))


@errors_of_archives()
def origin_of(archive: Archive) -> tuple[str, Manifest]:
    """Return the host of the master that sealed an archive, if that is said, and the manifest."""
    about = archive.document(RUN)
    return str(about.get("installation", "")), Manifest.from_fields(about["manifest"])


def _read_columns(archive: Archive, names: Collection[str], since_us: int) -> Columns:
    columns = {
        (name.metric, name.rank): _column(archive, name, since_us)
        for name in archive.series
        if not name.pod and (name.metric in names or str(name) in names)
    }
    return {key: column for key, column in columns.items() if column.times_us}


def _column(archive: Archive, name: SeriesName, since_us: int) -> Column:
    """Read the numbers of a series, of which those that Prometheus did not hold come last."""
    times, values = array("q"), array("d")
    for piece in archive.read(name):
        for time_us, number in _numbers(piece):
            if time_us >= since_us:
                times.append(time_us)
                values.append(number)
    if not archive.series[name].kept:
        return Column(times, values)
    order = sorted(range(len(times)), key=times.__getitem__)
    return Column([times[i] for i in order], [values[i] for i in order])


def _numbers(piece: Piece) -> Iterator[tuple[int, float]]:
    for i, (time_us, value) in enumerate(zip(piece.times_us, piece.values, strict=True)):
        text = piece.more[i].text if i in piece.more else None
        # As the API has it: what it spells with more digits than a float has is no number.
        if text is None and abs(value) > EXACT_INTEGERS:
            text = spell(value)
        number = value if text is None else number_or_text(text)
        if isinstance(number, float):
            yield time_us, number


# --- Checks ---

# What a clock may be off the dates of its samples: they have milliseconds, and dates are set right.
_SECONDS, _SHARE = 0.5, 0.02
_REACHED = re.compile(r" reached in ([\d.]+) seconds")
# Lists of sentences, whose wording may differ between versions.
_SENTENCES = {"clock_faults"}
# Figures that a rule decides, and rules change. A sealed judgement stays as it was made.
_JUDGEMENTS = ("division", "departures", "disturbed")
# Figures that have another definition in results without a later field: worker-seconds with the
# queue, which end with each rank, and waiting by spans of seconds instead of steps.
_REDEFINED = {
    "cost": "training_time_problem",
    "goodput": "sampled_steps",
    "stragglers": "sampled_steps",
}
# Of a run that ended badly, these were of each rank's last report.
_REDEFINED_TOTALS = dict.fromkeys(
    (
        *("samples", "training_seconds", "samples_per_second", "phases", "communication_share"),
        *("step_seconds", "ranks"),
    ),
    "training_time_problem",
)


def check(archive: Archive) -> list[str]:
    """Check an archive by itself; return its problems, a sentence each."""
    return examine(archive)[0]


@errors_of_archives()
def examine(archive: Archive) -> tuple[list[str], list[str]]:
    """Check an archive by itself; return its problems and its notes, a sentence each.

    Problems: digests differ, samples are missing, the samples give another result, or clocks, dates
    and the task's own words contradict each other. Notes, if there are no problems: judgements
    differ by today's rules, or figures have another definition today.
    """
    if damage := archive.check():
        return damage, []
    sealed = archive.document(RUN)["result"]
    today = recompute(archive, context_of(archive)).to_fields()
    problems = [
        *_check_counts(archive),
        *_check_files(archive),
        *_check_result(sealed, today),
        *contradictions(archive),
    ]
    return problems, [] if problems else _notes(sealed, today)


def _notes(sealed: Mapping[str, Any], today: Mapping[str, Any]) -> list[str]:
    judged = [name for name in _JUDGEMENTS if name in sealed and sealed[name] != today[name]]
    redefined = [name for name in sealed if _is_redefined(sealed, name)]
    return [
        *(f"judged by the rules at its sealing: {name} differs today" for name in judged),
        *(f"not recomputed: {name} has another definition today" for name in redefined),
    ]


def _check_counts(archive: Archive) -> list[str]:
    recorded = sum(stream["recorded"] for stream in archive.document(ROWS)["stream"])
    sealed = [one for name, one in archive.series.items() if not name.pod]
    found = sum(one.samples + one.kept for one in sealed)
    return [] if found == recorded else [f"{recorded} samples were recorded, and it has {found}"]


def _check_files(archive: Archive) -> list[str]:
    """Compare the list of the files that ranks left with the members that have them."""
    listed = {
        file_member(file["attempt"], file["rank"], file["name"]): file["sha256"]
        for file in archive.document(RUN).get("files", [])
        if not file["left"]
    }
    return [
        f"{name} is not the file that it lists"
        for name, sha256 in listed.items()
        if archive.members.get(name) != sha256
    ]


def _check_result(stated: Mapping[str, Any], computed: Mapping[str, Any]) -> list[str]:
    return [
        f"its samples give another result: {name} is {computed[name]}, not {stated[name]}"
        for name in stated
        if name not in _JUDGEMENTS
        and not _is_redefined(stated, name)
        and not _agree(stated, computed, name)
    ]


def _is_redefined(stated: Mapping[str, Any], name: str) -> bool:
    """Check whether a figure was sealed by a definition that this version does not compute."""
    redefined = _REDEFINED | (_REDEFINED_TOTALS if stated["state"] in ENDED_BADLY else {})
    return name in redefined and redefined[name] not in stated


def _agree(stated: Mapping[str, Any], computed: Mapping[str, Any], name: str) -> bool:
    """Compare a figure; one that this version has, and the one that sealed had not, is no other.

    Sentences may be worded otherwise: of these, there must be as many.
    """
    was, now = stated[name], computed.get(name, stated[name])
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        return all(_agree(was, now, part) for part in was)
    if isinstance(was, list) and isinstance(now, list):
        pairs = [({"": old}, {"": other}) for old, other in zip(was, now, strict=False)]
        is_text = name in _SENTENCES
        return len(was) == len(now) and (is_text or all(_agree(*pair, "") for pair in pairs))
    return name in ("text", *_JUDGEMENTS) or bool(was == now)


def contradictions(archive: Archive) -> list[str]:
    """Return what in an archive contradicts something else in it, a sentence each."""
    return [*_clocks(archive), *_task_results(archive)]


def _clocks(archive: Archive) -> Iterator[str]:
    """Yield the ranks whose clocks of training and evaluation did not run as the dates say."""
    [run], result = archive.document(ROWS)["run"], archive.document(RUN)["result"]
    ranks = (result.get("goodput") or {}).get("ranks", ())
    restarted = run.get("attempt") != 1 or any(rank.get("restarts") for rank in ranks)
    if restarted or result.get("clock_faults"):
        return  # before a training goes on, no clock runs
    for name in archive.series:
        evaluation = SeriesName(names.phase_metric("evaluation"), name.rank)
        if name.pod or name.metric != names.TRAIN_SECONDS or evaluation not in archive.series:
            continue
        training, evaluating = _values(archive, name), _values(archive, evaluation)
        at = sorted(training.keys() & evaluating.keys())
        if len(at) > 1:
            ends = [training[us] + evaluating[us] for us in (at[0], at[-1])]
            counted, passed = ends[1] - ends[0], (at[-1] - at[0]) / 1e6
            if abs(counted - passed) > max(_SECONDS, _SHARE * passed):
                clocks = f"the clocks of rank {name.rank} tell {counted:.2f} s"
                yield f"{clocks}, and the dates of its samples {passed:.2f} s"


def _task_results(archive: Archive) -> Iterator[str]:
    """Yield where the task's own sentence tells another time to the goal than the result."""
    reached = archive.document(RUN)["result"].get("time_to_accuracy") or {}
    seconds = reached.get("training_seconds")
    texts = [
        more.text
        for name in archive.series
        if name.metric == names.TASK_RESULT
        for piece in archive.read(name)
        for more in piece.more.values()
    ]
    matches = [match for text in texts if text and (match := _REACHED.search(text))]
    if matches and seconds is not None:
        claim = float(matches[-1][1])
        if abs(claim - seconds) > max(_SECONDS, _SHARE * seconds):
            yield f"the task says that it reached its goal in {claim} s, its result {seconds:.3f} s"


def _values(archive: Archive, name: SeriesName) -> dict[int, float]:
    return {
        time_us: value
        for piece in archive.read(name, kept=False)
        for time_us, value in zip(piece.times_us, piece.values, strict=True)
    }


# --- Comparison of archives ---


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
            part = _read_runs(archives, run_set, criteria)
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


def _read_runs(files: Sequence[Path], run_set: RunSet | None, criteria: Criteria) -> _Runs:
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
