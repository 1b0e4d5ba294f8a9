"""The words of a report: what was compared, whether that is fair, and where it ran."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mlbench.options import in_use
from mlbench.records import Machine, Manifest, RankOnMachine
from mlbench.report import figures
from mlbench.results import Comparison, Result
from mlbench.runspec import IMPAIRMENTS, Network, options_of

_SENTENCES = {
    "yes": "These runs can be compared: the same data, goal and batch size, as far as stated.",
    "no": "These runs cannot be compared:",
    "unknown": "Whether these runs can be compared is not known:",
    "scaling": "These runs can be compared, but not by their number of workers:",
    "disturbed": "These runs can be compared, but not by times and rates: some were disturbed.",
}
Verdict = Literal["yes", "no", "unknown", "scaling", "disturbed"]
"""`scaling`: yes, but not by their number of workers; `disturbed`: yes, but not by their times."""
_OWN_CODE = "own code"
# Of all installed packages, those that a training run depends on.
_PACKAGES = ("torch", "numpy", "tensorflow", "jax", "mxnet")


@dataclass(frozen=True)
class Statement:
    """Whether runs can be compared, and in what they differ."""

    comparable: Verdict
    sentence: str
    reasons: tuple[str, ...]
    """Why they cannot be compared, why it is not known, or why speed-ups mislead."""
    learning: tuple[str, ...]
    """Differences that may have a part in what is learned, such as a learning rate."""
    differences: tuple[str, ...]
    """Those that have none, such as the kind of processor."""
    departures: tuple[str, ...]
    """Where runs leave the rules of their task."""
    disturbed: tuple[str, ...]
    """Which runs were disturbed, and by what."""
    notes: tuple[str, ...]
    """What became of sets, scores, whether groups differ by more than chance, wrong clocks."""

    @property
    def lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What follows the sentence: lists that are not empty, each with a heading, or none."""
        lists = (
            ("", (*self.reasons, *self.notes)),
            ("Disturbed, so that figures are not those of the runs alone:", self.disturbed),
            ("Departures from the rules of the task:", self.departures),
            ("What is learned may differ by:", self.learning),
            ("What else differs:", self.differences),
        )
        return tuple((heading, texts) for heading, texts in lists if texts)


def title(comparison: Comparison) -> str:
    """Return the tasks and numbers of workers, such as ``digits on 1, 2, 4 workers``."""
    tasks = _distinct(result.benchmark or _OWN_CODE for result in comparison.results)
    workers = _distinct(str(group.num_workers) for group in comparison.groups)
    unit = "worker" if workers == ["1"] else "workers"
    return f"{', '.join(tasks)} on {', '.join(workers)} {unit}"


def subtitle(comparison: Comparison) -> str:
    """Return the number of runs, their goals, and what they sweep."""
    count = len(comparison.results)
    goals = _distinct(figures.goal(result.target) for result in comparison.results if result.target)
    aim = f"goal: {', '.join(goals)}" if goals else "no goal"
    swept = ", ".join(comparison.groups[0].swept)
    runs = f"{count} {'run' if count == 1 else 'runs'}, {aim}"
    return f"{runs}, swept: {swept}" if swept else runs


def statement(comparison: Comparison) -> Statement:
    """Return whether the runs can be compared; the sentence is empty for a single run."""
    of_order = ("yes", "unknown", "scaling")

    def differing(breaks: str) -> tuple[str, ...]:
        return tuple(one.text for one in comparison.differences if one.breaks == breaks)

    reasons = [text for breaks in of_order for text in differing(breaks)]
    reasons += [group.doubt for group in comparison.groups if group.doubt]
    disturbed = _said(comparison.results, lambda result: result.disturbed)
    verdict: Verdict = comparison.comparable
    if verdict == "yes" and (reasons or disturbed):
        verdict = "scaling" if reasons else "disturbed"
    alone = len(comparison.results) == 1
    return Statement(
        comparable=verdict,
        sentence="" if alone else _SENTENCES[verdict],
        reasons=tuple(reasons),
        learning=differing("learning"),
        differences=differing("no"),
        departures=tuple(_departures(comparison.results)),
        disturbed=disturbed,
        notes=tuple(_notes(comparison)),
    )


def _notes(comparison: Comparison) -> Iterator[str]:
    if comparison.caution:
        yield comparison.caution
    yield from comparison.sets
    for group in comparison.groups:
        if group.score:
            yield f"{group.label}: {group.score.text}"
        if group.convergence and group.convergence.is_too_fast:
            yield f"{group.label}: {group.convergence.text}"
    if comparison.sweep and comparison.sweep.text:
        yield comparison.sweep.text
    else:
        yield from (group.evidence.text for group in comparison.groups if group.evidence)
    yield from _said(comparison.results, lambda result: result.clock_faults)


def _said(results: Sequence[Result], texts: Callable[[Result], Sequence[str]]) -> tuple[str, ...]:
    return tuple(f"run {result.run_id}: {text}" for result in results for text in texts(result))


def _departures(results: Sequence[Result]) -> Iterable[str]:
    """Return a line for each departure, with all the runs that have it."""
    for departure in _distinct(text for result in results for text in result.departures):
        runs = [str(result.run_id) for result in results if departure in result.departures]
        named = f"{'run' if len(runs) == 1 else 'runs'} {', '.join(runs)}"
        yield f"{'all runs' if len(runs) == len(results) > 1 else named}: {departure}"


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
        Fact("settings", _pairs(in_use(manifest.settings or {}))),
        Fact("seed", "" if manifest.seed is None else str(manifest.seed)),
        Fact("backend", manifest.backend),
        Fact("limits", _pairs({"num_workers": 0} | asdict(manifest.limits))),
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
    return Fact(name, machine_text(machine))


def machine_text(machine: Machine) -> str:
    """Return a machine in words: its processors, memory, system and packages."""
    return "; ".join(_machine_parts(machine))


def _machine_parts(machine: Machine) -> Iterable[str]:
    if machine.cpu_model:
        yield machine.cpu_model
    yield from (f"{name.replace('_', ' ')} {fact}" for name, fact in machine.processor.items())
    if machine.cpus:
        limit = machine.cpu_limit
        cores = "1 core" if machine.cpus == 1 else f"{machine.cpus} cores"
        yield cores + (f" (limit {limit:g})" if limit else "")
    if machine.memory_bytes:
        yield f"{figures.bytes_of_memory(machine.memory_bytes)} of memory"
    yield from machine.gpus
    if machine.bandwidth_limit:
        yield f"{machine.bandwidth_limit:g} Mbit/s at most, but for 3 kB at once"
    for name in IMPAIRMENTS:
        if value := getattr(machine, name):
            yield f"{value:g} {options_of(Network)[name].unit_in_words}"
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
