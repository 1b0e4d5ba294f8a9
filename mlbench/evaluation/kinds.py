"""Kinds of runs: runs sorted by their facts, each kind named by what tells it from the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlbench.evaluation.differences import (
    COMMAND,
    DATA,
    GOAL,
    NUM_CPUS,
    Facts,
    is_learned,
)
from mlbench.evaluation.sweeps import Spot
from mlbench.results import Result
from mlbench.runspec import Network, options_of

_NONE = "none"


@dataclass(frozen=True)
class Kind:
    """Runs that do not contradict each other, and the facts that any of them states."""

    facts: dict[str, str]
    results: list[Result]

    @property
    def num_workers(self) -> int:
        """Return that of each of its runs."""
        return self.results[0].num_workers

    def spot(self, keys: Sequence[str]) -> Spot:
        """Return where it lies in a sweep of these keys."""
        return Spot(self.num_workers, {key: self.results[0].swept[key] for key in keys})


def sort_into_kinds(results: Sequence[Result], facts: Mapping[int, Facts]) -> list[Kind]:
    """Sort runs into kinds. A run that stated less, as it failed early, joins one that it fits."""
    kinds: list[Kind] = []
    for result in sorted(results, key=lambda one: -len(facts[one.run_id])):
        stated = facts[result.run_id]
        for kind in kinds:
            if not _contradict(kind.facts, stated):
                kind.results.append(result)
                kind.facts.update(stated)
                break
        else:
            kinds.append(Kind(dict(stated), [result]))
    order = {result.run_id: i for i, result in enumerate(results)}
    for kind in kinds:
        kind.results.sort(key=lambda one: order[one.run_id])
    return sorted(kinds, key=lambda kind: order[kind.results[0].run_id])


def _contradict(some: Facts, others: Facts) -> bool:
    return any(some.get(name, value) != value for name, value in others.items())


def same_task(first: Kind, kind: Kind) -> bool:
    """Check if two kinds learn the same data to the same goal, as a speed-up requires."""
    known = {name: first.facts[name] for name in (GOAL, DATA) if name in first.facts}
    return not _contradict(kind.facts, known)


def labels_of(kinds: Sequence[Kind], spots: Sequence[Spot]) -> list[str]:
    """Return a label of each kind: its shape, and more facts where others have the same shape.

    In a sweep, the shape is what it sweeps, and its workers where their number differs.
    """
    of_sweep = [_swept_shape(spot, spots) for spot in spots]
    shapes = of_sweep if spots[0].swept else [_shape(kind, kinds) for kind in kinds]
    labels = []
    for kind, shape in zip(kinds, shapes, strict=True):
        like = [one for one, other in zip(kinds, shapes, strict=True) if other == shape]
        labels.append(", ".join([shape, *_told_apart(kind, like)]))
    return labels


def _told_apart(kind: Kind, others: Sequence[Kind]) -> list[str]:
    """Return as few facts of a kind as contradict all others, such as ``learning rate 0.1``.

    What is learned by comes first, and the command last: it is long.
    """
    left = [other for other in others if other is not kind]
    told = []
    order = sorted(
        kind.facts.items(), key=lambda fact: (fact[0] == COMMAND, not is_learned(fact[0]))
    )
    for name, value in order:
        same = [other for other in left if not _contradict(other.facts, {name: value})]
        if len(same) < len(left):
            told.append(f"{name.replace('_', ' ')} {value}")
            left = same
    return told


def _swept_shape(spot: Spot, spots: Sequence[Spot]) -> str:
    scaled = len({one.num_workers for one in spots}) > 1
    workers = [count(spot.num_workers, "worker")] if scaled else []
    return ", ".join([*workers, *(f"{key} {value}" for key, value in spot.swept.items())])


def _shape(kind: Kind, kinds: Sequence[Kind]) -> str:
    parts = [count(kind.num_workers, "worker")]
    if len({one.facts[NUM_CPUS] for one in kinds}) > 1:
        cores = kind.facts[NUM_CPUS]
        parts.append(f"{cores} {'core' if cores == '1' else 'cores'} each")
    for name, option in options_of(Network).items():
        values = [one.facts.get(name, option.unasked) for one in (kind, *kinds)]
        if len({*values[1:]}) > 1 and values[0] != _NONE:
            parts.append(f"{values[0]} {option.unit_in_words}")
    return ", ".join(parts)


def count(number: int, of: str) -> str:
    """Return a number of things, such as ``2 workers``."""
    return f"{number} {of}" if number == 1 else f"{number} {of}s"
