"""The judgement of a comparison: whether it is fair, what differs, and what else is to be known."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite

from mlbench.contract.comparisons import Comparison, Fastest, Judgement, Verdict
from mlbench.contract.results import Result
from mlbench.contract.words import numbered

# By verdict: what is so, how a report says that in one sentence, and why, in another one.
_SENTENCES: Mapping[Verdict, tuple[str, str, str]] = {
    "yes": (
        "These runs can be compared",
        ": the same data, goal and batch size, as far as stated.",
        "They have the same data, goal and batch size, as far as they state them.",
    ),
    "scaling": (
        "These runs can be compared, but not by their number of workers",
        ":",
        "Speed-up and efficiency are not those of the workers alone:",
    ),
    "disturbed": (
        "These runs can be compared, but not by times and rates",
        ": CPU contention or profiling may explain how they differ.",
        "Some waited for cores that other processes had, or were profiled.",
    ),
    "no": ("These runs cannot be compared", ":", "They differ in what a result depends on:"),
    "unknown": (
        "Whether these runs can be compared is not known",
        ":",
        "Not all of them state what a result depends on:",
    ),
}
_OF_ONE = ("Two runs make a comparison", "", "Add a second run to see them side by side.")


def judge(comparison: Comparison) -> Judgement:
    """Judge a comparison by its differences, groups and results."""

    def differing(*breaks: str) -> tuple[str, ...]:
        return tuple(o.text for kind in breaks for o in comparison.differences if o.breaks == kind)

    doubts = tuple(group.doubt for group in comparison.groups if group.doubt)
    reasons = (*differing("yes", "unknown", "scaling"), *doubts)
    disturbed = (
        *_of_runs(comparison.results, lambda result: result.disturbed),
        *(group.contention_doubt for group in comparison.groups if group.contention_doubt),
    )
    verdict: Verdict = comparison.comparable
    if verdict == "yes" and (reasons or disturbed):
        verdict = "scaling" if reasons else "disturbed"
    title, more, why = _SENTENCES[verdict] if comparison.results[1:] else _OF_ONE
    learned_by = ", ".join(o.name for o in comparison.differences if o.breaks == "learning")
    return Judgement(
        verdict=verdict,
        sentence=title + more if comparison.results[1:] else "",
        title=title,
        why=why,
        reasons=reasons,
        learning=differing("learning"),
        learned_by=f"What is learned may differ by: {learned_by}." if learned_by else "",
        differences=differing("no"),
        departures=tuple(_departures(comparison.results)),
        disturbed=disturbed,
        notes=tuple(_notes(comparison)),
        clock_faults=_of_runs(comparison.results, lambda result: result.clock_faults),
        fastest=None if disturbed else _fastest(comparison),
    )


def _notes(comparison: Comparison) -> Iterator[str]:
    for result in comparison.results:
        if result.outcome and result.outcome.kind in ("nan", "hung", "crashed"):
            uncounted = "; its time to accuracy does not count" * (result.outcome.kind == "nan")
            yield f"run {result.run_id}: {result.outcome.text}{uncounted}"
    if comparison.caution:
        yield comparison.caution
    yield from comparison.sets
    for group in comparison.groups:
        if group.score:
            yield f"{group.label}: {group.score.text}"
        if group.convergence and group.convergence.is_too_fast:
            yield f"{group.label}: {group.convergence.text}"
    yield from (one.text for one in comparison.failures if one.text)
    if comparison.sweep and comparison.sweep.text:
        yield comparison.sweep.text
    else:
        yield from (group.evidence.text for group in comparison.groups if group.evidence)


def _of_runs(
    results: Sequence[Result], texts: Callable[[Result], Sequence[str]]
) -> tuple[str, ...]:
    return tuple(f"run {result.run_id}: {text}" for result in results for text in texts(result))


def _departures(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line for each departure, with all the runs that have it."""
    for departure in dict.fromkeys(text for result in results for text in result.departures):
        runs = [result.run_id for result in results if departure in result.departures]
        who = "all runs" if len(runs) == len(results) > 1 else numbered("run", runs)
        yield f"{who}: {departure}"


def _fastest(comparison: Comparison) -> Fastest | None:
    """Return the group that took the least time to the goal, if all have the same."""
    times = (group.training_seconds_to_accuracy for group in comparison.groups)
    means = {i: one.mean for i, one in enumerate(times) if one and one.mean and isfinite(one.mean)}
    goals = {result.target for result in comparison.results if result.target}
    if comparison.comparable == "no" or len(means) < 2 or len(goals) > 1:
        return None
    fastest, *_, slowest = sorted(means, key=lambda i: means[i])
    return Fastest(fastest, slowest, means[slowest] / means[fastest])
