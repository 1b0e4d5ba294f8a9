"""The tables of a report. How they are laid out is up to each format."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mlbench.contract.comparisons import Comparison, Failures, Group
from mlbench.contract.names import PHASES
from mlbench.contract.results import Result
from mlbench.contract.runspec import NETWORK_UNITS
from mlbench.contract.sweeps import Chart, Frontier, Sweep
from mlbench.report import figures

Cell = float | int | str | None

SWEEP, FAILURES = "Sweep", "Failures"
"""Titles of the tables that a terminal shows of a sweep."""
_INTERVAL = "From, to: where the mean is with 95 % confidence, if figures are about lognormal."
_INTERVALS = "In brackets, where the mean is with 95 % confidence, if figures are about lognormal."
_CROSSINGS = (
    "Which is faster below a bandwidth, and which above: time to target, interpolated between "
    "the bandwidths measured. From, to: where the crossing is with 95 % confidence; - is beyond "
    "what was measured, or for fewer than three runs."
)
_PROFILES = (
    "On which share of the workloads, each a bandwidth and a number of workers, an algorithm takes "
    "at most so many times as long as the fastest, by median times. Score: the mean of that share "
    "from 1 to 4 times (AlgoPerf, Dahl et al. 2023)."
)
_FAILURES = (
    "Kept: the share of the time, from the first to the last step, that neither failures nor "
    "checkpoints took. By formula: the same from the measured costs, and the interval that keeps "
    "most (Young 1974, Daly 2006)."
)
_WALL_MEAN = "Since start: the mean by the wall clock."
_THROUGHPUT = "Throughput: of all workers, in training time."
_COMMUNICATION = "Communication: its share of the training time."
_SENT = "Sent: by a rank in a step, to exchange gradients or weights."
_COST = "Cost: for how long workers were taken."
_REACHED = "Reached: the target, in training time."
_WALL = "Since start: to the target, by the wall clock."
_GOODPUT = "Goodput: share of worker-seconds that advanced the final model."
_CHECKPOINT = "Checkpoint: for how long each held the training up."
_CONTENTION = "CPU contention: share of the time in which others held the core of a rank, at most."
_CONTENTION = (
    "Contention: share of the time that the rank waited for a core which others had, of the rank "
    "of each run that did so most. It lengthens a run by about 1.3 times as much."
)
_P = "p: of a test against that one, corrected for all of these."
_TIMES_OF_FASTEST = (1, 1.5, 2, 4)
_CAUTIONS = {
    "scaling": "Speed-up and efficiency are not those of the number of workers alone: see above.",
    "disturbed": "Some runs were disturbed: times, rates and speed-ups are not theirs alone.",
}


@dataclass(frozen=True)
class Heading:
    """The head of a column."""

    text: str
    unit: str = ""
    is_figure: bool = True
    """Whether the cells are numbers, which are aligned right."""
    is_minor: bool = False
    """Whether a narrow terminal may leave the column out."""


@dataclass(frozen=True)
class ReportTable:
    """A table whose cells are texts."""

    title: str
    note: str
    """How to read it; may be empty."""
    headings: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]
    heat: tuple[tuple[int | None, ...], ...] = ()
    """The colours of its cells, as positions in the palette; empty for a table without any."""


def tables(comparison: Comparison) -> list[ReportTable]:
    """Return the tables of a comparison, without those that would be empty."""
    groups, results = comparison.groups, comparison.results
    sweep = comparison.sweep
    of_sweep = [_sweep(groups), *(_heat(sweep, chart) for chart in sweep.charts)] if sweep else []
    of_frontier = _frontier(comparison.frontier) if comparison.frontier else []
    of_frontier += [_failures(groups, comparison.failures)] if comparison.failures else []
    limits = {r.accuracy_after_time.limit_seconds for r in results if r.accuracy_after_time}
    # A single run is described by the table of runs.
    caution = _CAUTIONS.get(comparison.findings.verdict, "")
    of_groups = [
        _time_to_target(groups, caution),
        _throughput_and_cost(groups, " or ".join(map(figures.seconds, sorted(limits))), caution),
    ]
    others = [_phases(groups), _runs(results, groups[0].swept)]
    every = [*of_sweep, *of_frontier, *(of_groups if results[1:] else []), *others]
    return [table for table in every if table]


@dataclass(frozen=True)
class _Column:
    heading: Heading
    value: Callable[[Any], Cell]
    """Of a group or a result."""
    note: str = ""


def _figure(text: str, unit: str, path: str, note: str = "", **heading: bool) -> _Column:
    """Return a column of what is at a dotted path of attributes; shares are in percent."""

    def value(record: Any) -> Cell:
        for name in path.split("."):
            record = getattr(record, name)
            if record is None:
                return None
        figure: Cell = record * 100 if unit == "%" else record
        return figure

    return _Column(Heading(text, unit, **heading), value, note)


def _text(text: str, value: Callable[[Any], str], *, is_minor: bool = False) -> _Column:
    return _Column(Heading(text, is_figure=False, is_minor=is_minor), value)


def _naming(groups: Sequence[Group]) -> list[_Column]:
    """Return the columns that tell groups apart: in a sweep, a column for each of its keys."""
    named = {(group.num_workers, *group.swept.values()) for group in groups}
    if not groups[0].swept or len(named) < len(groups):
        return [_text("group", lambda group: group.label)]
    scaled = _differ_in_workers(groups)
    return [
        *(_swept(key) for key in groups[0].swept),
        *([_Column(Heading("workers"), lambda group: group.num_workers)] if scaled else []),
    ]


def _swept(key: str) -> _Column:
    unit = NETWORK_UNITS.get(key, "")
    heading = Heading(key, unit, is_figure=False)
    return _Column(heading, lambda record: record.swept[key].removesuffix(unit))


def _differ_in_workers(groups: Sequence[Group]) -> bool:
    return len({group.num_workers for group in groups}) > 1


def _sweep(groups: Sequence[Group]) -> ReportTable:
    times = [
        _reached(),
        *_mean("to the target", "s", "training_seconds_to_target"),
        _figure("throughput", "samples/s", "samples_per_second.mean", is_minor=True),
    ]
    rates = [
        _Column(Heading("runs"), lambda group: len(group.run_ids)),
        *_mean("throughput", "samples/s", "samples_per_second"),
    ]
    columns = [
        *_naming(groups),
        *(times if any(group.training_seconds_to_target for group in groups) else rates),
        _figure("times", figures.TIMES, "evidence.times_faster"),
        _figure("as fast as", "", "evidence.than", is_figure=False),
        _figure("p", "", "evidence.p", _P),
    ]
    return _table(SWEEP, "", columns, groups)


def _reached(note: str = "") -> _Column:
    return _Column(Heading("reached"), lambda group: f"{group.reached}/{len(group.run_ids)}", note)


def _mean(text: str, unit: str, path: str) -> list[_Column]:
    return _with_interval(text, unit, f"{path}.mean", _INTERVAL)


def _with_interval(text: str, unit: str, path: str, note: str = "") -> list[_Column]:
    """Return the columns of a figure, and of the ends of its interval."""
    return [
        _figure(text, unit, path),
        _figure("from", unit, f"{path}_low", note, is_minor=True),
        _figure("to", unit, f"{path}_high", is_minor=True),
    ]


def _heat(sweep: Sweep, chart: Chart) -> ReportTable | None:
    """Return a table of one figure, with a row and a column for each value of two keys."""
    if sweep.by is None:
        return None
    across, by = sweep.across, sweep.by
    heads = (Heading(value.removesuffix(across.unit)) for value in across.values)
    return ReportTable(
        f"{chart.title} [{chart.unit}]",
        f"Across: {across.title}. {_INTERVALS} The darker, the faster.",
        (Heading(by.key, is_figure=False), *heads),
        tuple(
            (value, *map(figures.with_interval, row))
            for value, row in zip(by.values, chart.cells, strict=True)
        ),
        tuple((None, *(cell.heat if cell else None for cell in row)) for row in chart.cells),
    )


def _time_to_target(groups: Sequence[Group], caution: str) -> ReportTable | None:
    if not any(g.training_seconds_to_target or g.wall_seconds_to_target for g in groups):
        return None
    columns = [
        *_naming(groups),
        _reached("In training time, evaluation left out."),
        *_mean("mean", "s", "training_seconds_to_target"),
        _figure("fastest", "s", "training_seconds_to_target.minimum"),
        _figure("slowest", "s", "training_seconds_to_target.maximum"),
        _figure("std. dev.", "s", "training_seconds_to_target.standard_deviation"),
        _figure("since start", "s", "wall_seconds_to_target.mean", _WALL_MEAN),
        *_scaling(groups, "time", "speedup", "efficiency"),
    ]
    note = f"A mean needs every run to have reached the target. {caution}".rstrip()
    return _table("Time to target", note, columns, groups)


def _throughput_and_cost(groups: Sequence[Group], limits: str, caution: str) -> ReportTable:
    columns = [
        *_naming(groups),
        _Column(Heading("runs"), lambda group: len(group.run_ids)),
        _Column(Heading("disturbed"), lambda group: group.disturbed or None),
        _figure("contention", "%", "contention_share", _CONTENTION),
        _figure("its cost", "%", "contention_cost", is_minor=True),
        _figure("throughput", "samples/s", "samples_per_second.mean", _THROUGHPUT),
        *_scaling(groups, "samples/s", "throughput_speedup", "throughput_efficiency"),
        _figure("comm. share", "%", "communication_share.mean", _COMMUNICATION),
        _figure("sent", "B/step", "bytes_sent_per_step.mean", _SENT),
        _figure(
            "after time",
            "metric",
            "accuracy_after_time.mean",
            f"After time: the target's metric after {limits}.",
        ),
        _figure("cost", "worker-s", "worker_seconds.mean", _COST),
        _figure("energy", "J", "energy_joules.mean", "Energy: of the GPUs."),
    ]
    return _table("Throughput and cost", caution, columns, groups)


def _scaling(groups: Sequence[Group], by: str, speedup: str, efficiency: str) -> list[_Column]:
    if len(groups) == 1 or (groups[0].swept and not _differ_in_workers(groups)):
        return []
    return [
        *_with_interval(f"speed-up by {by}", figures.TIMES, speedup),
        *_with_interval(f"efficiency by {by}", "%", efficiency),
    ]


def _frontier(frontier: Frontier) -> list[ReportTable]:
    """Return the tables of crossings and of performance profiles."""
    crossings = [
        _text("on", lambda crossing: crossing.where),
        _text("below", lambda crossing: crossing.below),
        _text("above", lambda crossing: crossing.above),
        _figure("crossing", "Mbit/s", "bandwidth"),
        _figure("from", "Mbit/s", "low"),
        _figure("to", "Mbit/s", "high"),
        _text("fastest of all", lambda crossing: "yes" if crossing.on_frontier else "no"),
    ]
    best_first = sorted(frontier.profiles, key=lambda profile: -profile.score)
    profiles = [
        _text("algorithm", lambda profile: profile.algorithm),
        _figure("score", "", "score"),
        *(_within(times) for times in _TIMES_OF_FASTEST),
    ]
    of_both = (
        ("Crossings", _CROSSINGS, crossings, frontier.crossings),
        ("Performance profiles", _PROFILES, profiles, best_first),
    )
    return [_table(*table) for table in of_both if table[-1]]


def _failures(groups: Sequence[Group], failures: Sequence[Failures]) -> ReportTable:
    columns = [
        _text("group", lambda row: groups[row.group].label),
        _figure("injected", "", "injected"),
        _figure("begun anew", "", "failures"),
        _figure("one every", "s", "between_seconds"),
        _figure("restart", "s", "restart_seconds"),
        _figure("saved every", "s", "interval_seconds"),
        _figure("in", "s", "checkpoint_seconds"),
        *_mean("kept", "%", "kept"),
        _figure("by formula", "%", "expected"),
        _figure("best every", "s", "best_interval_seconds"),
    ]
    return _table(FAILURES, _FAILURES, columns, failures)


def _within(times: float) -> _Column:
    heading = Heading(f"{figures.TIMES} {times:g}", "%")
    return _Column(heading, lambda profile: profile.share(times) * 100)


def phase_names(groups: Sequence[Group]) -> list[str]:
    """Return the phases that the groups have: the known ones in their order, then others."""
    found = {name for group in groups for name in group.phases}
    known = [*PHASES, "other"]
    return [name for name in known if name in found] + sorted(found - {*known})


def _phases(groups: Sequence[Group]) -> ReportTable | None:
    names = phase_names(groups)
    if not names:
        return None
    note = (
        "Seconds of a run in each phase, the mean over ranks and runs; evaluation is no training "
        "time."
    )
    sums = _Column(Heading("sum", "s"), lambda group: sum(group.phases.values()) or None)
    columns = [*_naming(groups), *map(_in_phase, names), sums]
    return _table("Time breakdown", note, columns, groups)


def _in_phase(name: str) -> _Column:
    # So short that all phases fit onto a terminal of 80 columns.
    heading = Heading("comm." if name == "communication" else name, "s")
    return _Column(heading, lambda group: group.phases.get(name))


def _runs(results: Sequence[Result], keys: Iterable[str]) -> ReportTable:
    departs = (
        "* violates the rules of its benchmark." if any(r.rule_violations for r in results) else ""
    )
    usual = ("FINISHED", "target reached", "completed")
    is_told = any(result.outcome_title not in usual for result in results)
    columns = [
        _Column(Heading("run"), lambda result: str(result.run_id)),
        _text("name", lambda result: result.title),
        *(_swept(key) for key in keys),
        *([_text("outcome", lambda result: result.outcome_title)] if is_told else []),
        _figure("workers", "", "num_workers", is_minor=True),
        _text("division", lambda r: r.division + ("*" if r.rule_violations else ""), is_minor=True),
        _figure("reached", "s", "time_to_target.training_seconds", _REACHED),
        _figure("since start", "s", "time_to_target.wall_seconds", _WALL),
        _figure("best", "", "best_value", "Best: of the target's metric."),
        _figure("epochs", "", "epochs", is_minor=True),
        _figure("throughput", "samples/s", "samples_per_second"),
        _figure("comm.", "%", "communication_share"),
        _figure("goodput", "%", "goodput.share", _GOODPUT),
        _figure("sent", "B/step", "bytes_sent_per_step", is_minor=True),
        _figure("checkpoint", "s", "checkpoints.seconds", _CHECKPOINT),
        _Column(Heading("resumed"), lambda result: len(result.resumptions) or None),
        _figure("CPU contention", "%", "contention_share", _CONTENTION),
        _figure("cost", "worker-s", "cost.worker_seconds"),
        _figure("price", "", "cost.total", is_minor=True),
        _figure("energy", "J", "energy_joules"),
    ]
    return _table("Runs", departs, columns, results)


def _table(
    title: str, note: str, columns: Sequence[_Column], records: Sequence[Any]
) -> ReportTable:
    """Return a table without the columns that are empty, and without their notes."""
    found = [(column, [column.value(record) for record in records]) for column in columns]
    kept = [(column, values) for column, values in found if any(v is not None for v in values)]
    return ReportTable(
        title,
        " ".join(filter(None, [*(column.note for column, _ in kept), note])),
        tuple(column.heading for column, _ in kept),
        tuple(zip(*(figures.column(values) for _, values in kept), strict=True)),
    )
