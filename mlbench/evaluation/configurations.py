"""Group runs by their configuration, and label each group by what distinguishes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlbench.contract.results import Result
from mlbench.contract.runspec import Network, options_of
from mlbench.contract.words import count, swept
from mlbench.evaluation.run_attributes import COMMAND, DATA, GOAL, NUM_CPUS, Facts, is_learned
from mlbench.evaluation.sweeps import SweepPoint

_NONE = "none"


@dataclass(frozen=True)
class Configuration:
    """Runs whose facts do not differ, and the facts that any of them states."""

    facts: dict[str, str]
    results: list[Result]

    @property
    def num_workers(self) -> int:
        """Return that of each of its runs."""
        return self.results[0].num_workers

    def point(self, keys: Sequence[str]) -> SweepPoint:
        """Return its combination in a sweep of these keys."""
        return SweepPoint(self.num_workers, {key: self.results[0].swept[key] for key in keys})


def group_by_configuration(
    results: Sequence[Result], facts: Mapping[int, Facts]
) -> list[Configuration]:
    """Group runs. One that stated less, as it failed early, joins the first that it fits."""
    configs: list[Configuration] = []
    for result in sorted(results, key=lambda result: -len(facts[result.run_id])):
        stated = facts[result.run_id]
        for config in configs:
            if not _differ(config.facts, stated):
                config.results.append(result)
                config.facts.update(stated)
                break
        else:
            configs.append(Configuration(dict(stated), [result]))
    order = {result.run_id: i for i, result in enumerate(results)}
    for config in configs:
        config.results.sort(key=lambda result: order[result.run_id])
    return sorted(configs, key=lambda config: order[config.results[0].run_id])


def _differ(some: Facts, others: Facts) -> bool:
    return any(some.get(name, value) != value for name, value in others.items())


def same_task(first: Configuration, config: Configuration) -> bool:
    """Check if both learn the same data to the same goal, as a speed-up requires."""
    known = {name: first.facts[name] for name in (GOAL, DATA) if name in first.facts}
    return not _differ(config.facts, known)


def labels_of(configs: Sequence[Configuration], points: Sequence[SweepPoint]) -> list[str]:
    """Return a label of each: its shape, and more facts where others have the same shape.

    In a sweep, the shape is what it sweeps, and its workers where their number differs.
    """
    of_sweep = [_swept_shape(point, points) for point in points]
    shapes = of_sweep if points[0].swept else [_shape(config, configs) for config in configs]
    labels = []
    for config, shape in zip(configs, shapes, strict=True):
        like = [config for config, other in zip(configs, shapes, strict=True) if other == shape]
        labels.append(", ".join([shape, *_distinguishing(config, like)]))
    return labels


def _distinguishing(config: Configuration, others: Sequence[Configuration]) -> list[str]:
    """Return as few facts as distinguish it from all others, such as ``learning rate 0.1``.

    What is learned by comes first, and the command last: it is long.
    """
    left = [other for other in others if other is not config]
    chosen = []
    for name in sorted(config.facts, key=lambda name: (name == COMMAND, not is_learned(name))):
        value = config.facts[name]
        same = [other for other in left if not _differ(other.facts, {name: value})]
        if len(same) < len(left):
            chosen.append(f"{name.replace('_', ' ')} {value}")
            left = same
    return chosen


def _swept_shape(point: SweepPoint, points: Sequence[SweepPoint]) -> str:
    scaled = len({one.num_workers for one in points}) > 1
    workers = [count(point.num_workers, "worker")] if scaled else []
    return ", ".join([*workers, swept(point.swept)])


def _shape(config: Configuration, configs: Sequence[Configuration]) -> str:
    parts = [count(config.num_workers, "worker")]
    if len({one.facts[NUM_CPUS] for one in configs}) > 1:
        cores = config.facts[NUM_CPUS]
        parts.append(f"{cores} {'core' if cores == '1' else 'cores'} each")
    for name, option in options_of(Network).items():
        values = [one.facts.get(name, option.unasked) for one in (config, *configs)]
        if len({*values[1:]}) > 1 and values[0] != _NONE:
            parts.append(f"{values[0]} {option.unit_in_words}")
    return ", ".join(parts)
