"""The tables of a report. How they are laid out is up to each format."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlbench.names import PHASES
from mlbench.report import figures
from mlbench.report.statement import statement
from mlbench.results import Comparison, Group, Result

Cell = float | int | str | None

_INTERVAL = "From, to: where the mean is with 95 % confidence."
_CAUTION = "Speed-up and efficiency are not those of the number of workers alone: see above."


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
    caution = _CAUTION if statement(comparison).comparable == "scaling" else ""
    of_groups = (
        [
            _time_to_accuracy(groups, caution),
            _throughput_and_cost(groups, _limits(results), caution),
        ]
        if results[1:]
        else []
    )
    return [table for table in [*of_groups, _phases(groups), _runs(results)] if table]


@dataclass(frozen=True)
class _Column:
    heading: Heading
    value: Callable[[Any], Cell]
    """Of a group or a result."""
    note: str = ""


def _figure(text: str, unit: str, path: str, note: str = "", *, is_minor: bool = False) -> _Column:
    """Return a column of numbers at a dotted path of attributes; shares in percent."""

    def value(record: Any) -> Cell:
        for name in path.split("."):
            record = getattr(record, name)
            if record is None:
                return None
        found: Cell = record * 100 if unit == "%" else record
        return found

    return _Column(Heading(text, unit, is_minor=is_minor), value, note)


def _text(text: str, value: Callable[[Any], str], *, is_minor: bool = False) -> _Column:
    return _Column(Heading(text, is_figure=False, is_minor=is_minor), value)


_GROUP = _text("group", lambda group: group.label)


def _time_to_accuracy(groups: Sequence[Group], caution: str) -> Table | None:
    if not any(g.training_seconds_to_accuracy or g.wall_seconds_to_accuracy for g in groups):
        return None
    columns = [
        _GROUP,
        _Column(
            Heading("reached"),
            lambda group: f"{group.reached}/{len(group.run_ids)}",
            "In training time, evaluation left out.",
        ),
        _figure("mean", "s", "training_seconds_to_accuracy.mean"),
        _figure("from", "s", "training_seconds_to_accuracy.mean_low", _INTERVAL, is_minor=True),
        _figure("to", "s", "training_seconds_to_accuracy.mean_high", is_minor=True),
        _figure("fastest", "s", "training_seconds_to_accuracy.minimum"),
        _figure("slowest", "s", "training_seconds_to_accuracy.maximum"),
        _figure("std. dev.", "s", "training_seconds_to_accuracy.standard_deviation"),
        _figure(
            "since start",
            "s",
            "wall_seconds_to_accuracy.mean",
            "Since start: the mean by the wall clock.",
        ),
        *_scaling(groups, "speedup", "efficiency"),
    ]
    note = f"{_how_means_are_made(groups)} {caution}".rstrip()
    return _table("Time to accuracy", note, columns, groups)


def _throughput_and_cost(groups: Sequence[Group], limits: str, caution: str) -> Table:
    columns = [
        _GROUP,
        _Column(Heading("runs"), lambda group: len(group.run_ids)),
        _figure(
            "throughput",
            "samples/s",
            "samples_per_second.mean",
            "Throughput: of all workers, in training time.",
        ),
        *_scaling(groups, "throughput_speedup", "throughput_efficiency"),
        _figure(
            "comm. share",
            "%",
            "communication_share.mean",
            "Communication: its share of the training time.",
        ),
        _figure(
            "after time",
            "metric",
            "accuracy_after_time.mean",
            f"After time: the goal's metric after {limits}.",
        ),
        _figure(
            "cost", "worker-s", "worker_seconds.mean", "Cost: for how long workers were taken."
        ),
        _figure("energy", "J", "energy_joules.mean", "Energy: of the GPUs."),
    ]
    return _table("Throughput and cost", caution, columns, groups)


def _scaling(groups: Sequence[Group], speedup: str, efficiency: str) -> list[_Column]:
    if len(groups) == 1:
        return []
    return [_figure("speed-up", figures.TIMES, speedup), _figure("efficiency", "%", efficiency)]


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
    unfinished = any(result.state != "FINISHED" for result in results)
    columns = [
        _Column(Heading("run"), lambda result: str(result.run_id)),
        _text("name", lambda result: result.name),
        *([_text("state", lambda result: result.state)] if unfinished else []),
        _figure("workers", "", "num_workers", is_minor=True),
        _text("division", lambda r: r.division + ("*" if r.departures else ""), is_minor=True),
        _figure(
            "reached",
            "s",
            "time_to_accuracy.training_seconds",
            "Reached: the goal, in training time.",
        ),
        _figure(
            "since start",
            "s",
            "time_to_accuracy.wall_seconds",
            "Since start: to the goal, by the wall clock.",
        ),
        _figure("best", "", "best_value", "Best: of the goal's metric."),
        _figure("epochs", "", "epochs", is_minor=True),
        _figure("throughput", "samples/s", "samples_per_second"),
        _figure("comm.", "%", "communication_share"),
        _figure("cost", "worker-s", "cost.worker_seconds"),
        _figure("price", "", "cost.total", is_minor=True),
        _figure("energy", "J", "energy_joules"),
    ]
    return _table("Runs", departs, columns, results)


def _table(
    title: str, note: str, columns: Sequence[_Column], records: Sequence[Group | Result]
) -> Table:
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
