"""Checking archives: digests, counts, and whether what they tell agrees with itself.

Who changes a figure and makes all digests anew has to change its samples, clocks, dates and the
task's own sentence alike. That is more work, and no proof: a digest is no signature.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlbench.archive import ROWS, RUN, Archive, SeriesName, file_member
from mlbench.contract import names
from mlbench.evaluation.archived import context_of, errors_of_archives, recompute
from mlbench.evaluation.inputs import ENDED_BADLY

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
