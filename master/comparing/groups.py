"""Groups of runs that differ in nothing but their seed, name and moment, beside each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from master.comparing import summaries
from master.comparing.differences import COMMAND, DATA, GOAL, MAX_BANDWIDTH, NUM_CPUS, Facts
from master.results import mean
from mlbench.results import Group, Result, Summary


@dataclass(frozen=True)
class _Kind:
    """Runs of one kind, and what they have in common."""

    facts: dict[str, str]
    results: list[Result]

    @property
    def num_workers(self) -> int:
        return self.results[0].num_workers


def to_groups(results: Sequence[Result], facts: Mapping[int, Facts]) -> tuple[Group, ...]:
    """Return the groups of runs, in order of workers, each compared with the first."""
    kinds = sorted(_kinds(results, facts), key=lambda kind: kind.num_workers)
    groups = [_group(kind, label) for kind, label in zip(kinds, _labels(kinds), strict=True)]
    return tuple(
        _against(groups[0], group) if _ask_the_same(kinds[0], kind) else group
        for group, kind in zip(groups, kinds, strict=True)
    )


def _kinds(results: Sequence[Result], facts: Mapping[int, Facts]) -> list[_Kind]:
    """Return runs by their kind, each in order.

    A run that stated less, as it failed early, is of the kind that it does not contradict.
    """
    kinds: list[_Kind] = []
    for result in sorted(results, key=lambda one: -len(facts[one.run_id])):
        stated = facts[result.run_id]
        for kind in kinds:
            if not _contradict(kind.facts, stated):
                kind.results.append(result)
                kind.facts.update(stated)
                break
        else:
            kinds.append(_Kind(dict(stated), [result]))
    order = {result.run_id: i for i, result in enumerate(results)}
    for kind in kinds:
        kind.results.sort(key=lambda one: order[one.run_id])
    return sorted(kinds, key=lambda kind: order[kind.results[0].run_id])


def _contradict(some: Facts, others: Facts) -> bool:
    return any(some.get(name, value) != value for name, value in others.items())


def _ask_the_same(first: _Kind, kind: _Kind) -> bool:
    """Return whether two kinds learn the same data to the same goal: else no time is a speed-up."""
    known = {name: first.facts[name] for name in (GOAL, DATA) if name in first.facts}
    return not _contradict(kind.facts, known)


def _labels(kinds: Sequence[_Kind]) -> list[str]:
    """Return what tells each kind from the others: its shape; more where that is not enough."""
    shapes = [_shape(kind, kinds) for kind in kinds]
    labels = []
    for kind, shape in zip(kinds, shapes, strict=True):
        like = [one for one, other in zip(kinds, shapes, strict=True) if other == shape]
        labels.append(", ".join([shape, *_told_apart(kind, like)]))
    return labels


def _told_apart(kind: _Kind, others: Sequence[_Kind]) -> list[str]:
    """Return as few facts of a kind as contradict all others, such as ``backend gloo``.

    The command comes last: it is long, and what it sets may be stated in few words.
    """
    left = [other for other in others if other is not kind]
    told = []
    for name, value in sorted(kind.facts.items(), key=lambda fact: fact[0] == COMMAND):
        same = [other for other in left if not _contradict(other.facts, {name: value})]
        if len(same) < len(left):
            told.append(f"{name} {value}")
            left = same
    return told


def _shape(kind: _Kind, kinds: Sequence[_Kind]) -> str:
    parts = [_count(kind.num_workers, "worker")]
    if len({one.facts[NUM_CPUS] for one in kinds}) > 1:
        cores = kind.facts[NUM_CPUS]
        parts.append(f"{cores} {'core' if cores == '1' else 'cores'} each")
    if len({one.facts[MAX_BANDWIDTH] for one in kinds}) > 1:
        parts.append(f"{kind.facts[MAX_BANDWIDTH]} Mbit/s")
    return ", ".join(parts)


def _count(number: int, of: str) -> str:
    return f"{number} {of}" if number == 1 else f"{number} {of}s"


def _group(kind: _Kind, label: str) -> Group:
    runs = kind.results
    reached = [one.time_to_accuracy for one in runs]
    after = [one.accuracy_after_time for one in runs]
    return Group(
        label=label,
        num_workers=kind.num_workers,
        run_ids=tuple(one.run_id for one in runs),
        reached=sum(one is not None for one in reached),
        training_seconds_to_accuracy=summaries.of_times(
            one.training_seconds if one else None for one in reached
        ),
        wall_seconds_to_accuracy=summaries.of_times(
            one.wall_seconds if one else None for one in reached
        ),
        accuracy_after_time=summaries.of_figures(one.value if one else None for one in after),
        samples_per_second=summaries.of_figures(one.samples_per_second for one in runs),
        communication_share=summaries.of_figures(one.communication_share for one in runs),
        worker_seconds=summaries.of_figures(
            one.cost.worker_seconds if one.cost else None for one in runs
        ),
        energy_joules=summaries.of_figures(one.energy_joules for one in runs),
        phases=_phases(runs),
        speedup=None,
        efficiency=None,
        throughput_speedup=None,
        throughput_efficiency=None,
    )


def _phases(runs: Sequence[Result]) -> dict[str, float]:
    """Return the mean seconds of the runs that have phases; one that a run has not took it none."""
    found = [one.phases for one in runs if one.phases]
    names = dict.fromkeys(name for phases in found for name in phases)
    return {name: mean(phases.get(name, 0.0) for phases in found) for name in names}


def _against(first: Group, group: Group) -> Group:
    """Return a group with how much faster it is than the first."""
    faster = _ratio(
        _mean(first.training_seconds_to_accuracy), _mean(group.training_seconds_to_accuracy)
    )
    more = _ratio(_mean(group.samples_per_second), _mean(first.samples_per_second))
    times = group.num_workers / first.num_workers
    return replace(
        group,
        speedup=faster,
        efficiency=None if faster is None else faster / times,
        throughput_speedup=more,
        throughput_efficiency=None if more is None else more / times,
    )


def _mean(summary: Summary | None) -> float | None:
    return summary.mean if summary else None


def _ratio(upper: float | None, lower: float | None) -> float | None:
    return upper / lower if upper is not None and lower else None
