"""Comparison of groups of runs: how much faster each is, and whether that is more than chance.

Runs with the same attributes form a group: they differ only in seed, name and time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, isfinite
from operator import itemgetter
from typing import Any

from mlbench.contract.comparisons import (
    Comparison,
    Difference,
    Fastest,
    Findings,
    Group,
    Value,
    Verdict,
)
from mlbench.contract.figures import percent
from mlbench.contract.humanize import count, numbered, swept
from mlbench.contract.records import RunSet
from mlbench.contract.results import Result, Summary
from mlbench.contract.runspec import NetworkOptions, options_of
from mlbench.evaluation import official_rules, statistics, stragglers, sweeps
from mlbench.evaluation.failures import failures_of
from mlbench.evaluation.goodput import largest
from mlbench.evaluation.run_attributes import (
    CODE,
    COMMAND,
    DATA,
    GIT_COMMIT,
    NUM_CPUS,
    SEED,
    SHAPE,
    TARGET,
    Facts,
    are_comparable,
    find_differences,
    is_learned,
    normalize,
    swept_attribute,
)
from mlbench.evaluation.statistics import Pair, hold_against, mean, of_ratio, ratio
from mlbench.evaluation.sweeps import SweepPoint, charts

# --- Groups ---


@dataclass(frozen=True)
class Configuration:
    """Runs with the same attributes, and all attributes that any of them reports."""

    facts: dict[str, str]
    results: list[Result]
    seed_of: Mapping[int, str]
    """Seeds of all compared runs that have one, by their ids."""

    @property
    def num_workers(self) -> int:
        """Number of workers of each run."""
        return self.results[0].num_workers

    @property
    def times(self) -> list[float]:
        """Training seconds to the target of each run, infinite for one that missed it."""
        return statistics.missed_as_slowest(run.seconds_to_target for run in self.results)

    @property
    def rates(self) -> list[float]:
        """Samples per second of the runs that recorded them."""
        return statistics.known(run.samples_per_second for run in self.results)

    @property
    def seeds(self) -> list[str | None]:
        """Seed of each run; None for a run without one."""
        return [self.seed_of.get(run.run_id) for run in self.results]

    def point(self, keys: Sequence[str]) -> SweepPoint:
        """Return the runs' combination in a sweep of these keys."""
        return SweepPoint(self.num_workers, {key: self.results[0].swept[key] for key in keys})


Compared = tuple[Configuration, Group]
"""Runs with the same attributes, and their group."""


def group_by_configuration(
    results: Sequence[Result], facts: Mapping[int, Facts], seed_of: Mapping[int, str]
) -> list[Configuration]:
    """Group runs. A run that failed early and reported less joins the first group that it fits."""
    configs: list[Configuration] = []
    for result in sorted(results, key=lambda result: -len(facts[result.run_id])):
        reported = facts[result.run_id]
        for config in configs:
            if not _differ(config.facts, reported):
                config.results.append(result)
                config.facts.update(reported)
                break
        else:
            configs.append(Configuration(dict(reported), [result], seed_of))
    order = {result.run_id: i for i, result in enumerate(results)}
    for config in configs:
        config.results.sort(key=lambda result: order[result.run_id])
    return sorted(configs, key=lambda config: order[config.results[0].run_id])


def _differ(some: Facts, others: Facts) -> bool:
    return any(some.get(name, value) != value for name, value in others.items())


def same_task(first: Configuration, config: Configuration) -> bool:
    """Check if both groups learn the same data to the same target; a speed-up requires it."""
    known = {name: first.facts[name] for name in (TARGET, DATA) if name in first.facts}
    return not _differ(config.facts, known)


def labels_of(configs: Sequence[Configuration], points: Sequence[SweepPoint]) -> list[str]:
    """Return the label of each group: its shape, and more attributes if others have that shape.

    These are as few as distinguish it from all others, such as ``learning rate 0.1``. In a sweep,
    the shape is the swept values, and the number of workers if it differs.
    """
    if points[0].swept:
        is_scaled = len({point.num_workers for point in points}) > 1
        shapes = [
            f"{count(point.num_workers, 'worker')}, " * is_scaled + swept(point.swept)
            for point in points
        ]
    else:
        # Name cores and network limits only if they differ between the groups.
        shapes = []
        have_unequal_cores = len({config.facts[NUM_CPUS] for config in configs}) > 1
        for config in configs:
            parts = [count(config.num_workers, "worker")]
            if have_unequal_cores:
                cores = config.facts[NUM_CPUS]
                parts.append(f"{cores} {'core' if cores == '1' else 'cores'} each")
            for name, option in options_of(NetworkOptions).items():
                value, *values = [c.facts.get(name, option.unasked) for c in (config, *configs)]
                if len(set(values)) > 1 and value != "none":
                    parts.append(f"{value} {option.unit_in_words}")
            shapes.append(", ".join(parts))
    labels = []
    for config, shape in zip(configs, shapes, strict=True):
        others = zip(configs, shapes, strict=True)
        alike = [other for other, label in others if label == shape and other is not config]
        parts = [shape]
        # Settings come first, then the code, which says less. The command is last: it is long.
        for name, value in sorted(
            config.facts.items(),
            key=lambda fact: (fact[0] == COMMAND, not is_learned(fact[0]), fact[0] == CODE),
        ):
            same = [other for other in alike if not _differ(other.facts, {name: value})]
            if len(same) < len(alike):
                # The first digits of a commit identify it.
                shown = value[:7] if name == GIT_COMMIT else value
                parts.append(f"{name.replace('_', ' ')} {shown}")
                alike = same
        labels.append(", ".join(parts))
    return labels


# --- Judgement ---

# Each verdict has a title and an explanation, which may introduce the reasons.
_VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    "yes": (
        "These runs can be compared",
        "They have the same data, target and batch size, as far as they state them.",
    ),
    "scaling": (
        "These runs can be compared, but not by their number of workers",
        "Speed-up and efficiency are not those of the workers alone:",
    ),
    "disturbed": (
        "These runs can be compared, but not by times and rates",
        "Some waited for cores that other processes had, or were profiled.",
    ),
    "no": ("These runs cannot be compared", "They differ in what a result depends on:"),
    "unknown": (
        "Whether these runs can be compared is not known",
        "Not all of them state what a result depends on:",
    ),
}
_OF_ONE = ("Two runs make a comparison", "Add a second run to see them side by side.")


def judge(comparison: Comparison) -> Findings:
    """Judge a comparison by its differences, groups and results."""
    results, groups = comparison.results, comparison.groups
    is_comparison = len(results) > 1

    def differing(*breaks: str) -> tuple[str, ...]:
        return tuple(d.text for kind in breaks for d in comparison.differences if d.breaks == kind)

    doubts = tuple(group.doubt for group in groups if group.doubt)
    reasons = (*differing("yes", "unknown", "scaling"), *doubts)
    disturbed = (
        *(f"run {result.run_id}: {text}" for result in results for text in result.disturbed),
        *(group.contention_doubt for group in groups if group.contention_doubt),
    )
    verdict: Verdict = comparison.comparable
    if verdict == "yes" and (reasons or disturbed):
        verdict = "scaling" if reasons else "disturbed"
    title, why = _VERDICTS[verdict] if is_comparison else _OF_ONE
    learned_by = ", ".join(d.name for d in comparison.differences if d.breaks == "learning")
    rule_violations = []
    for violation in dict.fromkeys(text for result in results for text in result.rule_violations):
        runs = [result.run_id for result in results if violation in result.rule_violations]
        subject = "all runs" if len(runs) == len(results) > 1 else numbered("run", runs)
        rule_violations.append(f"{subject}: {violation}")
    return Findings(
        verdict=verdict,
        sentence=f"{title}. {why}" if is_comparison else "",
        title=title,
        why=why,
        reasons=reasons,
        learning=differing("learning"),
        learned_by=f"What is learned may differ by: {learned_by}." if learned_by else "",
        differences=differing("no"),
        rule_violations=tuple(rule_violations),
        disturbed=disturbed,
        notes=tuple(_notes(comparison)),
        clock_faults=tuple(
            f"run {result.run_id}: {text}" for result in results for text in result.clock_faults
        ),
        fastest=_fastest(comparison),
    )


def _notes(comparison: Comparison) -> Iterator[str]:
    for result in comparison.results:
        if result.outcome and result.outcome.kind in ("nan", "hung", "crashed"):
            uncounted = "; its time to target does not count" * (result.outcome.kind == "nan")
            yield f"run {result.run_id}: {result.outcome.text}{uncounted}"
    if comparison.caution:
        yield comparison.caution
    yield from comparison.sets
    for group in comparison.groups:
        if group.score:
            yield f"{group.label}: {group.score.text}"
        if group.convergence and group.convergence.is_too_fast:
            yield f"{group.label}: {group.convergence.text}"
    yield from (failures.text for failures in comparison.failures if failures.text)
    if comparison.frontier:
        yield from (cross.text for cross in comparison.frontier.crossings if cross.on_frontier)
    if comparison.sweep and comparison.sweep.text:
        yield comparison.sweep.text
    else:
        yield from (group.evidence.text for group in comparison.groups if group.evidence)


def _fastest(comparison: Comparison) -> Fastest | None:
    """Return the group with the least time to the target, or else the highest throughput.

    None if not all runs have the same target.
    """
    groups = comparison.groups
    targets = {result.target for result in comparison.results if result.target}
    if comparison.comparable == "no" or len(targets) > 1:
        return None
    times = {i: _mean(group.training_seconds_to_target) for i, group in enumerate(groups)}
    rates = {i: _mean(group.samples_per_second) for i, group in enumerate(groups)}
    by_time = {i: time for i, time in times.items() if time and isfinite(time)}
    # A lower pace is better, in seconds per target or per sample.
    paces = by_time or {i: 1 / rate for i, rate in rates.items() if rate}
    if len(paces) < 2:
        return None
    fastest, second, *_ = ranked = sorted(paces, key=lambda i: paces[i])
    slowest = ranked[-1]
    return Fastest(
        fastest,
        slowest,
        paces[slowest] / paces[fastest],
        "training_seconds_to_target" if by_time else "samples_per_second",
        second=None if second == slowest else second,
    )


# --- Comparison ---

_MAX_SEEDS = 3


def compare(
    results: Sequence[Result],
    facts: Mapping[int, Facts],
    sets: Sequence[RunSet] = (),
    group_by: Sequence[str] = (),
) -> Comparison:
    """Compare at least one run, given the attributes of each by its id, and the runs' sets.

    With ``group_by``, groups differ only in these attributes, their shape, target and data.
    """
    normalized = grouped = normalize(facts)
    seeds = {run_id: of_run[SEED] for run_id, of_run in facts.items() if SEED in of_run}
    keys = sweeps.keys_of(results)
    if group_by:
        chosen = {*SHAPE, TARGET, DATA, *group_by}
        keys = tuple(key for key in keys if swept_attribute(key) in chosen)
        grouped = {
            run_id: {name: value for name, value in of_run.items() if name in chosen}
            for run_id, of_run in normalized.items()
        }
    unordered = group_by_configuration(results, grouped, seeds)
    configs = [unordered[i] for i in sweeps.in_order([config.point(keys) for config in unordered])]
    groups = _to_groups(configs, keys, sets)
    settings = find_differences(normalized, keys)
    differences = (*settings, *_unequal_seeds(groups, facts))
    sweep = sweeps.lay_out(groups, [group.evidence for group in groups if group.evidence])
    unknown = [name for name in group_by if not any(name in run for run in normalized.values())]
    caution = f"no run states {' or '.join(unknown)}, by which they are grouped" if unknown else ""
    if few := [group for group in groups if group.evidence and not group.evidence.can_tell]:
        runs = min(len(group.run_ids) for group in few)
        caution = (
            f"with {count(runs, 'run')} of a group, no difference is significant: plan at least "
            "five, and give all groups the same seeds"
        )
    set_texts = []
    for run_set in sets:
        text = f"set {run_set.name}: {run_set.text}"
        tried = sum(bool(slot.trials) for slot in run_set.slots)
        percent, counted = run_set.until_percent, set(run_set.counted)
        if percent is not None and tried < len(run_set.slots):
            own_groups = [group for group in groups if counted & set(group.run_ids)]
            if all(group.is_known(percent) for group in own_groups):
                text += (
                    f"; stopped early after {tried} of {len(run_set.slots)} slots, as every mean "
                    f"was known to within {percent:g} %"
                )
        set_texts.append(text)
    analysis = sweeps.sweep_analysis()
    comparison = Comparison(
        are_comparable(differences),
        differences,
        groups,
        tuple(results),
        tuple(set_texts),
        sweep and replace(sweep, charts=charts(sweep, groups)),
        analysis.frontier(results) if analysis else None,
        caution,
        failures=failures_of(groups, results, facts),
    )
    findings = judge(comparison)
    fastest = findings.fastest and _tested(findings.fastest, [*zip(configs, groups, strict=True)])
    return replace(comparison, findings=replace(findings, fastest=fastest))


def _tested(fastest: Fastest, compared: Sequence[Compared]) -> Fastest | None:
    """Test the lead of the fastest group; None if the groups learn different data."""
    first, _ = compared[0]
    if not all(same_task(first, config) for config, _ in compared):
        return None
    pairs = comb(len(compared), 2)
    leader = compared[fastest.group]
    last = _test(compared[fastest.slowest], leader)
    second = None if fastest.second is None else _test(compared[fastest.second], leader)
    return replace(
        fastest,
        p=min(1.0, last.p * pairs) if last else None,
        can_tell=last is None or last.least_p * pairs < statistics.LEVEL,
        second_p=min(1.0, second.p * pairs) if second else None,
    )


def _unequal_seeds(groups: Sequence[Group], facts: Mapping[int, Facts]) -> list[Difference]:
    """Return the difference between groups whose runs had other seeds: their work is not equal."""
    seed_of = {run_id: int(of_run[SEED]) for run_id, of_run in facts.items() if SEED in of_run}
    by_seeds: dict[str, list[Group]] = {}
    for group in groups:
        seeds = sorted(seed_of[run_id] for run_id in group.run_ids if run_id in seed_of)
        by_seeds.setdefault(", ".join(map(str, seeds)), []).append(group)
    if len(by_seeds) == 1 or len(seed_of) < len(facts):
        return []
    texts = [
        f"{seeds} for {alike[0].label if len(alike) == 1 else f'{len(alike)} groups'}"
        for seeds, alike in by_seeds.items()
    ]
    if len(texts) > _MAX_SEEDS:
        texts[_MAX_SEEDS - 1 :] = ["others for the rest"]
    values = tuple(
        Value(seeds, tuple(run_id for group in alike for run_id in group.run_ids))
        for seeds, alike in by_seeds.items()
    )
    text = f"seed is {' and '.join(texts)}: not the same work"
    return [Difference(SEED, "learning", values, text)]


def _to_groups(
    configs: Sequence[Configuration], keys: Sequence[str], sets: Sequence[RunSet]
) -> tuple[Group, ...]:
    """Return the group of each configuration, compared with its baseline."""
    points = [config.point(keys) for config in configs]
    compared = [
        (config, _group(config, label, point.swept, sets))
        for config, label, point in zip(configs, labels_of(configs, points), points, strict=True)
    ]
    groups = []
    for i, point in enumerate(points):
        is_scaled = len({p.num_workers for p in points if p.swept == point.swept}) > 1
        base = compared[sweeps.fewest_workers(points, i)]
        groups.append(_scaled(base, compared[i], is_scaled=is_scaled))
    baselines = [sweeps.baseline(points, i) for i in range(len(points))]
    tests = {i: _test(compared[base], compared[i]) for i, (base, _) in enumerate(baselines)}
    tested = {i: pair for i, pair in tests.items() if pair}
    for i, evidence in zip(tested, statistics.judge([*tested.values()]), strict=True):
        number, differs_in = baselines[i]
        _, first = compared[number]
        doubt = stragglers.doubt_of(replace(groups[i], evidence=evidence), first)
        name = count(first.num_workers, "worker") if first.swept else first.label
        named = replace(evidence, baseline=number, than=differs_in or name)
        groups[i] = replace(groups[i], evidence=named, contention_doubt=doubt)
    return tuple(groups)


def _test(base: Compared, other: Compared) -> Pair | None:
    """Test a group's times to target against its baseline's, or throughput if none has a target.

    None if it has no baseline with the same data and target.
    """
    (base_config, first), (config, group) = base, other
    if config is base_config or not same_task(base_config, config):
        return None
    figures = base_config.times, config.times
    means = _mean(first.training_seconds_to_target), _mean(group.training_seconds_to_target)
    are_rates = not any(map(isfinite, [*figures[0], *figures[1]]))
    if are_rates:
        figures = base_config.rates, config.rates
        means = _mean(group.samples_per_second), _mean(first.samples_per_second)
    labels, seeds = (first.label, group.label), (base_config.seeds, config.seeds)
    return hold_against(*figures, labels, ratio(*means), seeds, are_rates)


def _group(
    config: Configuration, label: str, swept: Mapping[str, str], sets: Sequence[RunSet]
) -> Group:
    runs = config.results
    scoring = official_rules.scoring()
    reached = [run.valid_time_to_target for run in runs]
    # Sets that stop when their means are known look at the interval after each run.
    watched = {run_id for run_set in sets if run_set.until_percent for run_id in run_set.counted}
    is_watched = any(run.run_id in watched for run in runs)
    confidence = statistics.LOOKED_AT if is_watched else statistics.CONFIDENCE
    after = [run.accuracy_after_time for run in runs]
    contention = stragglers.share_of(runs)
    # A phase that one of the runs lacks took it no time.
    phases = [run.phases for run in runs if run.phases]
    names = dict.fromkeys(name for of_run in phases for name in of_run)
    return Group(
        label=label,
        num_workers=config.num_workers,
        run_ids=tuple(run.run_id for run in runs),
        reached=sum(time is not None for time in reached),
        disturbed=sum(bool(run.disturbed) for run in runs),
        training_seconds_to_target=statistics.of_times(config.times, confidence),
        wall_seconds_to_target=statistics.of_times(
            time.wall_seconds if time else None for time in reached
        ),
        accuracy_after_time=statistics.of_figures(last.value for last in after if last),
        samples_per_second=statistics.of_figures(config.rates, confidence),
        communication_share=statistics.of_shares(run.communication_share for run in runs),
        bytes_sent_per_step=statistics.of_figures(run.bytes_sent_per_step for run in runs),
        worker_seconds=statistics.of_figures(run.cost.worker_seconds for run in runs if run.cost),
        energy_joules=statistics.of_figures(run.energy_joules for run in runs),
        goodput_share=statistics.of_shares(run.goodput.share for run in runs if run.goodput),
        largest_bucket=largest(run.goodput for run in runs if run.goodput),
        contention_share=contention,
        contention_cost=None if contention is None else stragglers.COST * contention,
        phases={name: mean(of_run.get(name, 0.0) for of_run in phases) for name in names},
        speedup=None,
        efficiency=None,
        throughput_speedup=None,
        throughput_efficiency=None,
        evidence=None,
        convergence=scoring.convergence(runs, config.facts) if scoring else None,
        score=scoring.score(runs, config.facts, sets) if scoring else None,
        doubt="",
        swept=swept,
    )


def _scaled(first: Compared, other: Compared, *, is_scaled: bool) -> Group:
    """Return a group with its speed-ups over the first one, which has the fewest workers.

    A group has an efficiency only if groups differ in their number of workers.
    """
    (base, origin), (config, group) = first, other
    if not same_task(base, config):
        return group
    faster = ratio(
        _mean(origin.training_seconds_to_target), _mean(group.training_seconds_to_target)
    )
    more = ratio(_mean(group.samples_per_second), _mean(origin.samples_per_second))
    times = group.num_workers / origin.num_workers
    has_efficiency = is_scaled and (times > 1 or group is origin)
    scaling: dict[str, Any] = {}
    for prefix, figure, both in (
        ("", faster, (base.times, config.times)),
        ("throughput_", more, (config.rates, base.rates)),
    ):
        interval = of_ratio(*both) if config is not base else (figure, figure)
        for end, speedup in zip(("", "_low", "_high"), (figure, *interval), strict=True):
            scaling[f"{prefix}speedup{end}"] = speedup
            if has_efficiency and speedup is not None:
                scaling[f"{prefix}efficiency{end}"] = speedup / times
    group = replace(group, **scaling)
    by, efficiency = max(
        ("time to target", group.efficiency or 0.0),
        ("samples/s", group.throughput_efficiency or 0.0),
        key=itemgetter(1),
    )
    if efficiency <= 1.05:  # A higher efficiency of more workers is doubtful.
        return group
    reason = (
        "likely causes are unequal cores or threads, too few runs, or data that fits into the "
        "caches of more workers"
    )
    if origin.disturbed:
        runs = count(len(origin.run_ids), "run")
        reason = f"{origin.label} was disturbed in {origin.disturbed} of {runs}"
    subject = f"the efficiency of {group.label} by {by}, {percent(efficiency, 0)}"
    return replace(group, doubt=f"{subject}, is hardly that of its workers: {reason}")


def _mean(summary: Summary | None) -> float | None:
    return summary.mean if summary else None
