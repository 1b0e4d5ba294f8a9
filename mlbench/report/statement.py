"""What a report says first: what was compared, whether that is fair, and who kept the rules."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mlbench.report import figures
from mlbench.results import Comparison, Result

_SENTENCES = {
    "yes": "These runs can be compared: the same data, goal and batch size, as far as stated.",
    "no": "These runs cannot be compared:",
    "unknown": "Whether these runs can be compared is not known:",
}
_OWN_CODE = "own code"


@dataclass(frozen=True)
class Statement:
    """Whether runs can be compared, and in what they differ."""

    comparable: Literal["yes", "no", "unknown"]
    sentence: str
    reasons: tuple[str, ...]
    """Why they cannot be compared, or why it is not known."""
    differences: tuple[str, ...]
    """In what else they differ."""
    departures: tuple[str, ...]
    """Where runs leave the rules of their task."""


def title(comparison: Comparison) -> str:
    """Return what was compared, such as ``digits on 1, 2, 4 workers``."""
    tasks = _distinct(result.benchmark or _OWN_CODE for result in comparison.results)
    workers = _distinct(str(group.num_workers) for group in comparison.groups)
    unit = "worker" if workers == ["1"] else "workers"
    return f"{', '.join(tasks)} on {', '.join(workers)} {unit}"


def subtitle(comparison: Comparison, left_out: int = 0) -> str:
    """Return how many runs there are, their goals, and how many more did not finish."""
    count = len(comparison.results)
    goals = _distinct(figures.goal(result.target) for result in comparison.results if result.target)
    aim = f"goal: {', '.join(goals)}" if goals else "no goal"
    missing = f"; left out: {left_out} that did not finish" if left_out else ""
    return f"{count} {'run' if count == 1 else 'runs'}, {aim}{missing}"


def statement(comparison: Comparison) -> Statement:
    """Return whether the runs can be compared; of a single run there is no need to say so."""
    breaking = tuple(one.text for one in comparison.differences if one.breaks == "yes")
    unknown = tuple(one.text for one in comparison.differences if one.breaks == "unknown")
    alone = len(comparison.results) == 1
    return Statement(
        comparable=comparison.comparable,
        sentence="" if alone else _SENTENCES[comparison.comparable],
        reasons=breaking + unknown,
        differences=tuple(one.text for one in comparison.differences if one.breaks == "no"),
        departures=tuple(_departures(comparison.results)),
    )


def _departures(results: Sequence[Result]) -> Iterable[str]:
    """Return a line for each departure, with all the runs that have it."""
    for departure in _distinct(text for result in results for text in result.departures):
        runs = [str(result.run_id) for result in results if departure in result.departures]
        yield f"{'run' if len(runs) == 1 else 'runs'} {', '.join(runs)}: {departure}"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
