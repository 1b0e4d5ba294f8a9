"""The tables of a report. How they are laid out is up to each format."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from mlbench.names import PHASES
from mlbench.report import figures
from mlbench.results import Comparison, Group, Result, Summary

Row = TypeVar("Row")
Cell = float | int | str | None


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
class Table:
    """A table whose cells are texts."""

    title: str
    note: str
    """How to read it; may be empty."""
    headings: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(comparison: Comparison) -> list[Table]:
    """Return the tables of a comparison, without those that would be empty."""
    groups, results = comparison.groups, comparison.results
    # A single run is described by the table of runs.
    of_groups = (
        [_time_to_accuracy(groups), _throughput_and_cost(groups, _limits(results))]
        if results[1:]
        else []
    )
    found = [*of_groups, _phases(groups), _runs(results)]
    return [table for table in found if table is not None]


@dataclass(frozen=True)
class _Column(Generic[Row]):
    heading: Heading
    value: Callable[[Row], Cell]
    note: str = ""


def _figure(text: str, unit: str, value: Callable[[Row], Cell], note: str = "") -> _Column[Row]:
    return _Column(Heading(text, unit), value, note)


def _text(text: str, value: Callable[[Row], str | None]) -> _Column[Row]:
    return _Column(Heading(text, is_figure=False), value)


def _minor(column: _Column[Row]) -> _Column[Row]:
    return replace(column, heading=replace(column.heading, is_minor=True))


def _time_to_accuracy(groups: Sequence[Group]) -> Table | None:
    if all(group.training_seconds_to_accuracy is None for group in groups) and all(
        group.wall_seconds_to_accuracy is None for group in groups
    ):
        return None
    columns: list[_Column[Group]] = [
        _text("group", lambda group: group.label),
        _figure(
            "reached",
            "",
            lambda group: f"{group.reached}/{len(group.run_ids)}",
            "In training time, evaluation left out.",
        ),
        _figure("mean", "s", lambda group: _mean(group.training_seconds_to_accuracy)),
        _figure("fastest", "s", lambda group: _least(group.training_seconds_to_accuracy)),
        _figure("slowest", "s", lambda group: _most(group.training_seconds_to_accuracy)),
        _figure("std. dev.", "s", lambda group: _deviation(group.training_seconds_to_accuracy)),
        _figure(
            "since start",
            "s",
            lambda group: _mean(group.wall_seconds_to_accuracy),
            "Since start: the mean by the wall clock.",
        ),
    ]
    if len(groups) > 1:
        columns += [
            _figure("speed-up", figures.TIMES, lambda group: group.speedup),
            _figure("efficiency", "%", lambda group: _in_percent(group.efficiency)),
        ]
    return _table("Time to accuracy", _how_means_are_made(groups), columns, groups)


def _throughput_and_cost(groups: Sequence[Group], limits: str) -> Table:
    columns: list[_Column[Group]] = [
        _text("group", lambda group: group.label),
        _figure("runs", "", lambda group: len(group.run_ids)),
        _figure(
            "throughput",
            "samples/s",
            lambda group: _mean(group.samples_per_second),
            "Throughput: of all workers, in training time.",
        ),
    ]
    if len(groups) > 1:
        columns += [
            _figure("speed-up", figures.TIMES, lambda group: group.throughput_speedup),
            _figure("efficiency", "%", lambda group: _in_percent(group.throughput_efficiency)),
        ]
    columns += [
        _figure(
            "comm. share",
            "%",
            lambda group: _in_percent(_mean(group.communication_share)),
            "Communication: its share of the training time.",
        ),
        _figure(
            "after time",
            "metric",
            lambda group: _mean(group.accuracy_after_time),
            f"After time: the goal's metric after {limits}.",
        ),
        _figure(
            "cost",
            "worker-s",
            lambda group: _mean(group.worker_seconds),
            "Cost: for how long workers were taken.",
        ),
        _figure("energy", "J", lambda group: _mean(group.energy_joules), "Energy: of the GPUs."),
    ]
    return _table("Throughput and cost", "", columns, groups)


def phase_names(groups: Sequence[Group]) -> list[str]:
    """Return the phases that the groups have: the known ones in their order, then others."""
    found = {name for group in groups for name in group.phases}
    known = [*PHASES, "other"]
    return [name for name in known if name in found] + sorted(found - {*known})


def _phases(groups: Sequence[Group]) -> Table | None:
    names = phase_names(groups)
    if not names:
        return None
    totals = [
        [*(group.phases.get(name) for name in names), sum(group.phases.values()) or None]
        for group in groups
    ]
    # The same number of decimals in all columns.
    flat = figures.column([seconds for group in totals for seconds in group])
    cells = [flat[i : i + len(names) + 1] for i in range(0, len(flat), len(names) + 1)]
    rows = zip([*names, "sum"], *cells, strict=True)
    return Table(
        "Where the time went",
        "Seconds of a run in each phase, the mean over ranks and runs; evaluation is no training "
        "time.",
        (Heading("phase", is_figure=False), *(Heading(group.label, "s") for group in groups)),
        tuple(rows),
    )


def _runs(results: Sequence[Result]) -> Table:
    departs = "* departs from its task's rules." if any(r.departures for r in results) else ""
    columns: list[_Column[Result]] = [
        _figure("run", "", lambda result: str(result.run_id)),
        _text("name", lambda result: result.name),
        _minor(_figure("workers", "", lambda result: result.num_workers)),
        _minor(_text("division", lambda r: f"{r.division}*" if r.departures else r.division)),
        _figure("reached", "s", _training_seconds, "Reached: the goal, in training time."),
        _figure("since start", "s", _wall_seconds, "Since start: to the goal, by the wall clock."),
        _figure("best", "", lambda result: result.best_value, "Best: of the goal's metric."),
        _minor(_figure("epochs", "", lambda result: result.epochs)),
        _figure("throughput", "samples/s", lambda result: result.samples_per_second),
        _figure("comm.", "%", lambda result: _in_percent(result.communication_share)),
        _figure("cost", "worker-s", _worker_seconds),
        _minor(_figure("price", "", lambda result: result.cost.total if result.cost else None)),
        _figure("energy", "J", lambda result: result.energy_joules),
    ]
    if any(result.state != "FINISHED" for result in results):
        columns.insert(2, _text("state", lambda result: result.state))
    return _table("Runs", departs, columns, results)


def _table(title: str, note: str, columns: Sequence[_Column[Row]], records: Sequence[Row]) -> Table:
    """Return a table without the columns that are empty, and without their notes."""
    found = [(column, [column.value(one) for one in records]) for column in columns]
    kept = [(column, values) for column, values in found if any(v is not None for v in values)]
    return Table(
        title,
        " ".join(filter(None, [*(column.note for column, _ in kept), note])),
        tuple(column.heading for column, _ in kept),
        tuple(zip(*(figures.column(values) for _, values in kept), strict=True)),
    )


def _limits(results: Sequence[Result]) -> str:
    """Return the times of accuracy after time, such as ``2 h 00 min``."""
    limits = {r.accuracy_after_time.limit_seconds for r in results if r.accuracy_after_time}
    return " or ".join(figures.seconds(limit) for limit in sorted(limits))


def _how_means_are_made(groups: Sequence[Group]) -> str:
    summaries = [group.training_seconds_to_accuracy for group in groups]
    if any(summary is not None and summary.left_out for summary in summaries):
        return (
            "Means leave out the fastest and the slowest run, as MLPerf's do; a run that did not "
            "reach the goal is the slowest."
        )
    return "A mean needs every run to have reached the goal."


def _mean(summary: Summary | None) -> float | None:
    return summary.mean if summary else None


def _least(summary: Summary | None) -> float | None:
    return summary.minimum if summary else None


def _most(summary: Summary | None) -> float | None:
    return summary.maximum if summary else None


def _deviation(summary: Summary | None) -> float | None:
    return summary.standard_deviation if summary else None


def _in_percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _training_seconds(result: Result) -> float | None:
    return result.time_to_accuracy.training_seconds if result.time_to_accuracy else None


def _wall_seconds(result: Result) -> float | None:
    return result.time_to_accuracy.wall_seconds if result.time_to_accuracy else None


def _worker_seconds(result: Result) -> float | None:
    return result.cost.worker_seconds if result.cost else None
