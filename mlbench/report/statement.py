"""The words of a report: what was compared, whether that is fair, and where it ran."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mlbench.records import Machine, Manifest, RankOnMachine
from mlbench.report import figures
from mlbench.results import Comparison, Result

_SENTENCES = {
    "yes": "These runs can be compared: the same data, goal and batch size, as far as stated.",
    "no": "These runs cannot be compared:",
    "unknown": "Whether these runs can be compared is not known:",
    "scaling": "These runs can be compared, but not by their number of workers:",
}
_OWN_CODE = "own code"
# Of all installed packages, those that a training run depends on.
_PACKAGES = ("torch", "numpy", "tensorflow", "jax", "mxnet")


@dataclass(frozen=True)
class Statement:
    """Whether runs can be compared, and in what they differ."""

    comparable: Literal["yes", "no", "unknown", "scaling"]
    """`scaling`: yes, but not by their number of workers."""
    sentence: str
    reasons: tuple[str, ...]
    """Why they cannot be compared, why it is not known, or why speed-ups mislead."""
    differences: tuple[str, ...]
    """Other differences."""
    departures: tuple[str, ...]
    """Where runs leave the rules of their task."""
    evidence: tuple[str, ...]
    """Whether the groups differ by more than chance."""


def title(comparison: Comparison) -> str:
    """Return the tasks and numbers of workers, such as ``digits on 1, 2, 4 workers``."""
    tasks = _distinct(result.benchmark or _OWN_CODE for result in comparison.results)
    workers = _distinct(str(group.num_workers) for group in comparison.groups)
    unit = "worker" if workers == ["1"] else "workers"
    return f"{', '.join(tasks)} on {', '.join(workers)} {unit}"


def subtitle(comparison: Comparison, left_out: int = 0) -> str:
    """Return the number of runs, their goals, and how many more did not finish."""
    count = len(comparison.results)
    goals = _distinct(figures.goal(result.target) for result in comparison.results if result.target)
    aim = f"goal: {', '.join(goals)}" if goals else "no goal"
    missing = f"; left out: {left_out} that did not finish" if left_out else ""
    return f"{count} {'run' if count == 1 else 'runs'}, {aim}{missing}"


def statement(comparison: Comparison) -> Statement:
    """Return whether the runs can be compared; the sentence is empty for a single run."""
    of_order = ("yes", "unknown", "scaling")
    differing = [(one.breaks, one.text) for one in comparison.differences]
    reasons = [text for breaks in of_order for breaking, text in differing if breaking == breaks]
    reasons += [group.doubt for group in comparison.groups if group.doubt]
    answer = comparison.comparable
    verdict: Literal["yes", "no", "unknown", "scaling"] = (
        "scaling" if reasons and answer == "yes" else answer
    )
    alone = len(comparison.results) == 1
    return Statement(
        comparable=verdict,
        sentence="" if alone else _SENTENCES[verdict],
        reasons=tuple(reasons),
        differences=tuple(one.text for one in comparison.differences if one.breaks == "no"),
        departures=tuple(_departures(comparison.results)),
        evidence=tuple(group.evidence.text for group in comparison.groups if group.evidence),
    )


def _departures(results: Sequence[Result]) -> Iterable[str]:
    """Return a line for each departure, with all the runs that have it."""
    for departure in _distinct(text for result in results for text in result.departures):
        runs = [str(result.run_id) for result in results if departure in result.departures]
        yield f"{'run' if len(runs) == 1 else 'runs'} {', '.join(runs)}: {departure}"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


# --- The facts of a run's manifest ---


@dataclass(frozen=True)
class Fact:
    """A line of a report."""

    name: str
    text: str


def facts(manifest: Manifest) -> tuple[Fact, ...]:
    """Return what a run ran, and on which machines; facts that are not known are left out."""
    found = [
        Fact("division", manifest.division),
        *(Fact("departure", text) for text in manifest.departures),
        Fact("task", manifest.benchmark),
        Fact("command", manifest.command),
        Fact("folder", manifest.working_dir or ""),
        Fact("image", manifest.image),
        Fact("arguments", _pairs(manifest.args)),
        Fact("settings", _pairs(manifest.settings or {})),
        Fact("seed", "" if manifest.seed is None else str(manifest.seed)),
        Fact("backend", manifest.backend),
        Fact("limits", _pairs(asdict(manifest.limits))),
        Fact("image ids", ", ".join(sorted({rank.image for rank in manifest.ranks if rank.image}))),
        Fact("cores", _cores(manifest.ranks)),
        Fact("clocks", _clocks(manifest.ranks)),
        *(_machine_fact(machine) for machine in manifest.machines),
        Fact("MLBench", manifest.versions.mlbench),
    ]
    return tuple(fact for fact in found if fact.text)


def _machine_fact(machine: Machine) -> Fact:
    ranks = machine.ranks
    name = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    return Fact(name, "; ".join(_machine_parts(machine)))


def _machine_parts(machine: Machine) -> Iterable[str]:
    if machine.cpu_model:
        yield machine.cpu_model
    if machine.cpus:
        limit = machine.cpu_limit
        yield f"{machine.cpus} cores" + (f" (limit {limit:g})" if limit else "")
    if machine.memory_bytes:
        yield f"{figures.bytes_of_memory(machine.memory_bytes)} of memory"
    yield from machine.gpus
    if machine.bandwidth_limit:
        yield f"{machine.bandwidth_limit:g} Mbit/s at most"
    if machine.os:
        yield f"{machine.os} {machine.architecture or ''}".strip()
    if machine.python:
        yield f"Python {machine.python}"
    packages = machine.packages
    yield from (f"{name} {packages[name]}" for name in _PACKAGES if name in packages)
    if machine.git:
        changed = " with uncommitted changes" if machine.git.dirty else ""
        yield f"git {machine.git.commit[:12]}{changed}"


def _cores(ranks: Sequence[RankOnMachine]) -> str:
    bound = [f"rank {one.rank} on {', '.join(map(str, one.cpus))}" for one in ranks if one.cpus]
    return "; ".join(bound) or ("bound to none" if ranks else "")


def _clocks(ranks: Iterable[RankOnMachine]) -> str:
    offsets = [
        abs(rank.clock_offset_seconds) + (rank.clock_uncertainty_seconds or 0.0)
        for rank in ranks
        if rank.clock_offset_seconds is not None
    ]
    return f"within {max(offsets) * 1000:.1f} ms of the master's" if offsets else ""


def _pairs(values: Mapping[str, Any]) -> str:
    return figures.pairs({name: value for name, value in values.items() if value not in (None, "")})
