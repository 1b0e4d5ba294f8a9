"""Comparing runs: in which facts they differ, and how much faster each group of them is.

A fact is a name and a value, both texts. A run has no fact of what it does not state; workers,
cores and bandwidth, its shape, are always known. Runs that share all facts form a group: they
differ in nothing but their seed, name and moment.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from master.results import scoring, statistics, sweeps
from master.results.evidence import judge
from master.results.frontier import frontier, timed
from master.results.statistics import mean, ratio
from master.results.sweeps import Spot
from mlbench.records import RunSet
from mlbench.results import Comparison, Difference, Evidence, Group, Result, Summary, Value

Facts = Mapping[str, str]

Answer = Literal["yes", "no", "unknown"]

GOAL, OWN_GOAL = "goal", "own_goal"
DATA, DATA_CHECKSUM = "data", "data_sha256"
BATCH_SIZE, WORKER_BATCH_SIZE = "batch_size", "worker_batch_size"
NUM_WORKERS, NUM_CPUS, MAX_BANDWIDTH = "num_workers", "num_cpus", "max_bandwidth"
LATENCY, LOSS = "latency_ms", "loss_percent"
PROCESSES = "processes_per_worker"
BENCHMARK, IMAGE, COMMAND = "benchmark", "image", "command"
WORKING_DIR = "working_dir"
SEED = "seed"
# Begins the names of what is known of processors.
CPU_FACT = "cpu_"

# Runs that differ in one of these are not comparable.
_BREAKING = (GOAL, DATA, BATCH_SIZE)
# Runs of the same code that state no data have the same data.
_CODE = (BENCHMARK, IMAGE, COMMAND, WORKING_DIR)
# What users vary in order to compare.
SHAPE = (NUM_WORKERS, NUM_CPUS, MAX_BANDWIDTH, LATENCY, LOSS)
# What a worker has to compute with. Scaling compares workers that have the same.
_MEANS = (
    *("cpus", "cpu_limit", "memory_limit", "threads", "device", "oversubscribed"),
    *(NUM_CPUS, MAX_BANDWIDTH, LATENCY, LOSS, PROCESSES),
)
# What has no part in what is learned: where, on what and under which orders a run ran. All else is
# settings of its task, which may have.
_NOT_LEARNED = frozenset(
    {
        *_CODE,
        *SHAPE,
        *_MEANS,
        *("cpu", "gpus", "gpu_driver", "device_name", "channels_last", "compile"),
        *("os", "python", "torch", "numpy", "jax", "tensorflow", "blas"),
        *("mlbench", "git_commit", "git_dirty"),
        *(
            "origin",
            "division",
            "own_goal",
            "deadline_seconds",
            "max_restarts",
            "backend",
            "run_all_nodes",
        ),
    }
)
# More than as many times as fast as there are times as many workers, by this factor, is doubtful.
_PLAUSIBLE_EFFICIENCY = 1.05

# Of more runs, a sentence has the number only.
_MOST_NAMED = 12
_MOST_SEEDS = 3

_NOT_STATED = "not stated"
_NONE = "none"


def compare(
    results: Sequence[Result], facts: Mapping[int, Facts], sets: Sequence[RunSet] = ()
) -> Comparison:
    """Compare runs, at least one, whose facts are given by their ids, and the sets they are of."""
    known = normalize(facts)
    groups = to_groups(results, known, sets)
    differences = (
        *find_differences(known, sweeps.keys_of(results)),
        *_unequal_seeds(groups, facts),
    )
    return Comparison(
        are_comparable(differences),
        differences,
        groups,
        tuple(results),
        tuple(f"set {one.name}: {one.text}" for one in sets),
        sweeps.lay_out(
            [Spot(group.num_workers, group.swept) for group in groups],
            [group.evidence for group in groups if group.evidence],
        ),
        frontier(timed(results)),
    )


def normalize(facts: Mapping[int, Facts]) -> dict[int, dict[str, str]]:
    """Reduce facts to those by which all runs can be compared, each stated once.

    Data is its checksum, or its name if a run has no checksum. The batch size is that of a worker
    if all have the same: their task fixes it, and the total grows with the workers. A run's own
    goal counts only if some runs are evaluated by another one.
    """
    runs = facts.values()
    by_own_goals = all(of_run.get(OWN_GOAL) == of_run.get(GOAL) for of_run in runs)
    by_worker = _all_state(facts, WORKER_BATCH_SIZE) and not _differ(facts, WORKER_BATCH_SIZE)
    told_by = {
        DATA: DATA_CHECKSUM if _all_state(facts, DATA_CHECKSUM) else DATA,
        BATCH_SIZE: WORKER_BATCH_SIZE if by_worker else BATCH_SIZE,
    }
    spare = {
        *told_by,
        SEED,
        DATA_CHECKSUM,
        WORKER_BATCH_SIZE,
        *([OWN_GOAL] if by_own_goals else ()),
    }
    found = {}
    for run_id, of_run in facts.items():
        others = {name: value for name, value in of_run.items() if name not in spare}
        told = {name: of_run[source] for name, source in told_by.items() if source in of_run}
        found[run_id] = others | told
    return found


def find_differences(
    facts: Mapping[int, Facts], swept: Sequence[str] = ()
) -> tuple[Difference, ...]:
    """Return the differences between runs; those that break comparability come first.

    What is swept is no difference, unless it breaks comparability.
    """
    meant = (*SHAPE, *(key.replace("-", "_") for key in swept))
    same_code = not any(_differ(facts, name) for name in _CODE)
    names = dict.fromkeys(name for of_run in facts.values() for name in of_run)
    found = [_breaking(facts, name, same_code) for name in _BREAKING]
    found.sort(key=lambda one: one is not None and one.breaks == "unknown")
    unequal = [name for name in _MEANS if _differs_by_workers(facts, name)]
    differing = [
        name
        for name in names
        if name not in (*_BREAKING, *meant, *unequal) and _differ(facts, name)
    ]
    learning = [_describe(facts, name, "learning") for name in differing if _is_learned(name)]
    others = [_describe(facts, name, "no") for name in differing if not _is_learned(name)]
    scaling = (_describe(facts, name, "scaling") for name in unequal)
    return (*(one for one in found if one is not None), *scaling, *learning, *others)


def _is_learned(name: str) -> bool:
    return name not in _NOT_LEARNED and not name.startswith(CPU_FACT)


def _unequal_seeds(groups: Sequence[Group], facts: Mapping[int, Facts]) -> list[Difference]:
    """Return the difference of groups whose runs had other seeds: they did not do equal work."""
    known = {run_id: int(of_run[SEED]) for run_id, of_run in facts.items() if SEED in of_run}
    having: dict[str, list[Group]] = {}
    for group in groups:
        seeds = sorted(known[run_id] for run_id in group.run_ids if run_id in known)
        having.setdefault(", ".join(map(str, seeds)), []).append(group)
    if len(having) == 1 or len(known) < len(facts):
        return []
    told = [
        f"{seeds} for {alike[0].label if len(alike) == 1 else f'{len(alike)} groups'}"
        for seeds, alike in having.items()
    ]
    if len(told) > _MOST_SEEDS:
        told[_MOST_SEEDS - 1 :] = ["others for the rest"]
    values = tuple(
        Value(seeds, tuple(run_id for group in alike for run_id in group.run_ids))
        for seeds, alike in having.items()
    )
    text = f"seed is {' and '.join(told)}: not the same work"
    return [Difference(SEED, "learning", values, text)]


def are_comparable(differences: Sequence[Difference]) -> Answer:
    """Judge by the differences of runs if they can be compared."""
    breaks = {one.breaks for one in differences}
    if "yes" in breaks:
        return "no"
    return "unknown" if "unknown" in breaks else "yes"


def _breaking(facts: Mapping[int, Facts], name: str, same_code: bool) -> Difference | None:
    stating = [name in of_run for of_run in facts.values()]
    if _differ(facts, name):
        return _describe(facts, name, "yes")
    if all(stating) or (same_code and not any(stating)):
        return None
    return _describe(facts, name, "unknown")


def _all_state(facts: Mapping[int, Facts], name: str) -> bool:
    return all(name in of_run for of_run in facts.values())


def _differ(facts: Mapping[int, Facts], name: str) -> bool:
    return len({of_run[name] for of_run in facts.values() if name in of_run}) > 1


def _differs_by_workers(facts: Mapping[int, Facts], name: str) -> bool:
    """Check if runs on one number of workers have other values than those on another."""
    by_workers: dict[str, set[str]] = {}
    for of_run in facts.values():
        if name in of_run:
            by_workers.setdefault(of_run[NUM_WORKERS], set()).add(of_run[name])
    return len({frozenset(values) for values in by_workers.values()}) > 1


def _describe(
    facts: Mapping[int, Facts],
    name: str,
    breaks: Literal["yes", "no", "unknown", "scaling", "learning"],
) -> Difference:
    by_value: dict[str, list[int]] = {}
    for run_id, of_run in facts.items():
        by_value.setdefault(of_run.get(name, _NOT_STATED), []).append(run_id)
    values = tuple(Value(value, tuple(run_ids)) for value, run_ids in by_value.items())
    told = " and ".join(f"{one.value} in {_runs(one.run_ids)}" for one in values)
    consequence = {
        "yes": ": they cannot be compared",
        "unknown": ": whether they can be compared is not known",
        "scaling": ": speed-up and efficiency are not those of the number of workers",
    }
    return Difference(name, breaks, values, f"{name} is {told}{consequence.get(breaks, '')}")


def _runs(run_ids: Sequence[int]) -> str:
    if len(run_ids) > _MOST_NAMED:
        return f"{len(run_ids)} runs"
    plural = "runs" if len(run_ids) > 1 else "run"
    return f"{plural} {', '.join(map(str, run_ids))}"


@dataclass(frozen=True)
class _Kind:
    """Runs that do not contradict each other, and the facts that any of them states."""

    facts: dict[str, str]
    results: list[Result]

    @property
    def num_workers(self) -> int:
        return self.results[0].num_workers

    def spot(self, keys: Sequence[str]) -> Spot:
        """Return where it lies in a sweep of these keys."""
        return Spot(self.num_workers, {key: self.results[0].swept[key] for key in keys})


def to_groups(
    results: Sequence[Result], facts: Mapping[int, Facts], sets: Sequence[RunSet] = ()
) -> tuple[Group, ...]:
    """Group runs in order of workers, or of what they sweep, and compare the groups."""
    keys = sweeps.keys_of(results)
    found = _kinds(results, facts)
    kinds = [found[i] for i in sweeps.in_order([kind.spot(keys) for kind in found])]
    spots = [kind.spot(keys) for kind in kinds]
    groups = [
        replace(_group(kind, label, sets), swept=spot.swept)
        for kind, label, spot in zip(kinds, _labels(kinds, spots), spots, strict=True)
    ]
    return tuple(_compared(groups, kinds, spots, i) for i in range(len(groups)))


def _compared(
    groups: Sequence[Group], kinds: Sequence[_Kind], spots: Sequence[Spot], i: int
) -> Group:
    """Return a group with its speed-ups over its origin, and the evidence against its rival."""
    first, rival = sweeps.origin(spots, i), sweeps.rival(spots, i)
    found = groups[i]
    if _same_task(kinds[first], kinds[i]):
        alike = [one for one in spots if one.swept == spots[i].swept]
        scaled = len({one.num_workers for one in alike}) > 1
        found = _against(groups[first], found, scaled=scaled)
    if rival.index != i and _same_task(kinds[rival.index], kinds[i]):
        other = groups[rival.index]
        judged = _evidence((kinds[rival.index], other), (kinds[i], found))
        fewer = _count(other.num_workers, "worker") if found.swept else other.label
        found = replace(found, evidence=judged and replace(judged, than=rival.than or fewer))
    return found


def _kinds(results: Sequence[Result], facts: Mapping[int, Facts]) -> list[_Kind]:
    """Sort runs into kinds. A run that stated less, as it failed early, joins one that it fits."""
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


def _same_task(first: _Kind, kind: _Kind) -> bool:
    """Check if two kinds learn the same data to the same goal, as a speed-up requires."""
    known = {name: first.facts[name] for name in (GOAL, DATA) if name in first.facts}
    return not _contradict(kind.facts, known)


def _labels(kinds: Sequence[_Kind], spots: Sequence[Spot]) -> list[str]:
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


def _told_apart(kind: _Kind, others: Sequence[_Kind]) -> list[str]:
    """Return as few facts of a kind as contradict all others, such as ``learning rate 0.1``.

    What is learned by comes first, and the command last: it is long.
    """
    left = [other for other in others if other is not kind]
    told = []
    order = sorted(
        kind.facts.items(), key=lambda fact: (fact[0] == COMMAND, not _is_learned(fact[0]))
    )
    for name, value in order:
        same = [other for other in left if not _contradict(other.facts, {name: value})]
        if len(same) < len(left):
            told.append(f"{name.replace('_', ' ')} {value}")
            left = same
    return told


def _swept_shape(spot: Spot, spots: Sequence[Spot]) -> str:
    scaled = len({one.num_workers for one in spots}) > 1
    workers = [_count(spot.num_workers, "worker")] if scaled else []
    return ", ".join([*workers, *(f"{key} {value}" for key, value in spot.swept.items())])


def _shape(kind: _Kind, kinds: Sequence[_Kind]) -> str:
    parts = [_count(kind.num_workers, "worker")]
    if len({one.facts[NUM_CPUS] for one in kinds}) > 1:
        cores = kind.facts[NUM_CPUS]
        parts.append(f"{cores} {'core' if cores == '1' else 'cores'} each")
    for name, unit in ((MAX_BANDWIDTH, "Mbit/s"), (LATENCY, "ms late"), (LOSS, "% lost")):
        if len({one.facts[name] for one in kinds}) > 1 and kind.facts[name] != _NONE:
            parts.append(f"{kind.facts[name]} {unit}")
    return ", ".join(parts)


def _count(number: int, of: str) -> str:
    return f"{number} {of}" if number == 1 else f"{number} {of}s"


def _group(kind: _Kind, label: str, sets: Sequence[RunSet]) -> Group:
    runs = kind.results
    reference = scoring.reference_of(runs[0], kind.facts.get(BATCH_SIZE))
    reached = [one.time_to_accuracy for one in runs]
    after = [one.accuracy_after_time for one in runs]
    return Group(
        label=label,
        num_workers=kind.num_workers,
        run_ids=tuple(one.run_id for one in runs),
        reached=sum(one is not None for one in reached),
        disturbed=sum(bool(one.disturbed) for one in runs),
        training_seconds_to_accuracy=statistics.of_times(_training_seconds(kind)),
        wall_seconds_to_accuracy=statistics.of_times(
            one.wall_seconds if one else None for one in reached
        ),
        accuracy_after_time=statistics.of_figures(one.value if one else None for one in after),
        samples_per_second=statistics.of_figures(_rates(kind)),
        communication_share=statistics.of_figures(one.communication_share for one in runs),
        bytes_sent_per_step=statistics.of_figures(one.bytes_sent_per_step for one in runs),
        worker_seconds=statistics.of_figures(
            one.cost.worker_seconds if one.cost else None for one in runs
        ),
        energy_joules=statistics.of_figures(one.energy_joules for one in runs),
        phases=_phases(runs),
        speedup=None,
        efficiency=None,
        throughput_speedup=None,
        throughput_efficiency=None,
        evidence=None,
        convergence=reference.judge(runs) if reference else None,
        score=scoring.score(runs, sets, reference),
        doubt="",
    )


def _phases(runs: Sequence[Result]) -> dict[str, float]:
    """Return the mean seconds over runs with phases; a phase that one lacks took it no time."""
    found = [one.phases for one in runs if one.phases]
    names = dict.fromkeys(name for phases in found for name in phases)
    return {name: mean(phases.get(name, 0.0) for phases in found) for name in names}


def _against(first: Group, group: Group, *, scaled: bool) -> Group:
    """Return a group with its speed-ups over the first one.

    Efficiency is of more workers: there is none if no groups, or not these, differ in their number.
    """
    faster = ratio(
        _mean(first.training_seconds_to_accuracy), _mean(group.training_seconds_to_accuracy)
    )
    more = ratio(_mean(group.samples_per_second), _mean(first.samples_per_second))
    times = group.num_workers / first.num_workers
    has_efficiency = scaled and (times > 1 or group is first)
    efficiency = faster / times if faster is not None and has_efficiency else None
    throughput_efficiency = more / times if more is not None and has_efficiency else None
    return replace(
        group,
        speedup=faster,
        efficiency=efficiency,
        throughput_speedup=more,
        throughput_efficiency=throughput_efficiency,
        doubt=_doubt(
            group, {"time to accuracy": efficiency, "samples/s": throughput_efficiency}, first
        ),
    )


def _evidence(first: tuple[_Kind, Group], other: tuple[_Kind, Group]) -> Evidence | None:
    """Judge the times to accuracy of two kinds, or their throughput where none reached a goal."""
    (kind, group), (other_kind, other_group) = first, other
    labels = (group.label, other_group.label)
    times = [statistics.missed_as_slowest(_training_seconds(one)) for one in (kind, other_kind)]
    if any(map(math.isfinite, [*times[0], *times[1]])):
        means = [_mean(one.training_seconds_to_accuracy) for one in (group, other_group)]
        return judge(times[0], times[1], labels, ratio(means[0], means[1]))
    rates = [statistics.known(_rates(one)) for one in (kind, other_kind)]
    means = [_mean(one.samples_per_second) for one in (group, other_group)]
    return judge(rates[0], rates[1], labels, ratio(means[1], means[0]))


def _training_seconds(kind: _Kind) -> list[float | None]:
    """Return the training time to accuracy of each run; None for one that did not reach it."""
    reached = (one.time_to_accuracy for one in kind.results)
    return [one.training_seconds if one else None for one in reached]


def _rates(kind: _Kind) -> list[float | None]:
    return [one.samples_per_second for one in kind.results]


def _doubt(group: Group, efficiencies: Mapping[str, float | None], first: Group) -> str:
    by, efficiency = max(efficiencies.items(), key=lambda one: one[1] or 0.0)
    if efficiency is None or efficiency <= _PLAUSIBLE_EFFICIENCY:
        return ""
    of = f"the efficiency of {group.label} by {by}, {efficiency:.0%}"
    text = f"{of}, is hardly that of its workers: "
    if first.disturbed:
        runs = _count(len(first.run_ids), "run")
        return f"{text}{first.label} was disturbed in {first.disturbed} of {runs}"
    return text + (
        "likely causes are unequal cores or threads, too few runs, or data that fits into the "
        "caches of more workers"
    )


def _mean(summary: Summary | None) -> float | None:
    return summary.mean if summary else None
