"""The tables of a comparison in a terminal, without their layout."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlbench.contract import figures
from mlbench.contract.comparisons import Comparison
from mlbench.contract.names import PHASES
from mlbench.contract.results import Result
from mlbench.contract.runspec import NETWORK_UNITS

Cell = float | int | str | None

SWEEP, FAILURES = "Sweep", "Failures"
"""Titles of the tables that a terminal shows of a sweep."""
# A note below a table, for each heading that needs an explanation.
_NOTES = {
    "checkpoint": "Checkpoint: mean time that the training waits for a checkpoint.",
    "comm. share": "Comm. share: communication, waiting for each other included, in training time.",
    "contention": "Contention: share of the time that a rank waited for a core which other "
    "programs had, for the most affected rank of each run. It lengthens a run by about 1.3 times "
    "as much.",
    "cost": "Cost: time for which workers were held.",
    "energy": "Energy: of the GPUs.",
    "from": "From, to: 95 % confidence interval; times and rates are assumed to be about "
    "lognormal.",
    "goodput": "Goodput: share of worker-seconds that advanced the final model.",
    "p": "p: of a test against the group in the column before, corrected for all of them.",
    "reached": "Reached: the target, in training time, evaluation excluded.",
    "sent": "Sent: by a rank in a step, to exchange gradients or weights.",
    "since start": "Since start: by the wall clock.",
}
_FAILURES_NOTE = (
    "Kept: share of the time, from the first to the last step, that was not lost to failures and "
    "checkpoints. By formula: the same share from the measured costs, with the best interval "
    "(Young 1974, Daly 2006)."
)


@dataclass(frozen=True)
class TableColumn:
    """The description of a column."""

    text: str
    """Heading."""
    unit: str = ""
    value: str | Callable[[Any], Cell] = ""
    """Function of a record (a group, a result, a crossing), or dotted path of its attributes."""
    is_figure: bool = True
    """Whether the cells are numbers, which are aligned right."""
    is_minor: bool = False
    """Whether a narrow terminal may leave the column out."""

    @property
    def heading(self) -> str:
        """The text with its unit, such as ``cost (worker-s)``."""
        return f"{self.text} ({self.unit})" if self.unit else self.text

    def cell(self, record: Any) -> Cell:
        """Return the value of a record; a share at a path becomes a percentage."""
        if not isinstance(self.value, str):
            return self.value(record)
        for name in self.value.split("."):
            record = getattr(record, name)
            if record is None:
                return None
        cell: Cell = record * 100 if self.unit == "%" else record
        return cell


@dataclass(frozen=True)
class ReportTable:
    """A table whose cells are texts."""

    title: str
    note: str
    """How to read it; may be empty."""
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(comparison: Comparison) -> list[ReportTable]:
    """Return the tables of a comparison, without empty ones."""
    groups, results = comparison.groups, comparison.results
    is_scaled = len({group.num_workers for group in groups}) > 1
    swept = [_swept(key) for key in groups[0].swept]
    # The swept options name the groups of a sweep, unless some groups differ in more than these.
    naming = [TableColumn("group", "", "label", is_figure=False)]
    if swept and len({(g.num_workers, *g.swept.values()) for g in groups}) == len(groups):
        naming = [*swept, *([TableColumn("workers", "", "num_workers")] if is_scaled else [])]
    has_speedup = len(groups) > 1 and (is_scaled or not swept)
    has_targets = any(g.training_seconds_to_target or g.wall_seconds_to_target for g in groups)
    all_tables = []
    if comparison.sweep:
        measured = _SWEPT_TIMES if has_targets else _SWEPT_RATES
        all_tables.append(make_table(SWEEP, "", [*naming, *measured, *_EVIDENCE], groups))
    if comparison.failures:
        group = TableColumn("group", "", lambda row: groups[row.group].label, is_figure=False)
        all_tables.append(
            make_table(FAILURES, _FAILURES_NOTE, [group, *_FAILURES], comparison.failures)
        )
    if results[1:] and has_targets:
        note = "A mean needs every run to have reached the target."
        scaling = _scaling("time", "") if has_speedup else []
        all_tables.append(make_table("Time to target", note, [*naming, *_TIMES, *scaling], groups))
    if results[1:]:  # A single run is described by the table of runs.
        scaling = _scaling("samples/s", "throughput_") if has_speedup else []
        limits = {r.accuracy_after_time.limit_seconds for r in results if r.accuracy_after_time}
        times = " or ".join(map(figures.seconds, sorted(limits)))
        note = f"After time: the target's metric after {times}." if times else ""
        columns = [*naming, *_RATES, *scaling, *_COSTS]
        all_tables.append(make_table("Throughput and cost", note, columns, groups))
    recorded = {name for group in groups for name in group.phases}
    known = [*PHASES, "other"]
    if phases := [n for n in known if n in recorded] + sorted(recorded - {*known}):
        note = "Seconds of a run in each phase, mean over ranks and runs. Evaluation is extra."
        total = TableColumn("sum", "s", lambda group: sum(group.phases.values()) or None)
        columns = [*naming, *map(_phase, phases), total]
        all_tables.append(make_table("Time breakdown", note, columns, groups))
    note = "* violates the rules of its benchmark." * any(r.rule_violations for r in results)
    usual = {"FINISHED", "target reached", "completed"}
    outcome = TableColumn("outcome", "", "outcome_title", is_figure=False)
    outcomes = [outcome] if {result.outcome_title for result in results} - usual else []
    all_tables.append(make_table("Runs", note, [*_RUN, *swept, *outcomes, *_RESULT], results))
    return [table for table in all_tables if table.rows]


def make_table(
    title: str, note: str, columns: Sequence[TableColumn], records: Sequence[Any]
) -> ReportTable:
    """Return a table without empty columns, with the notes on the others."""
    every = {column: [column.cell(record) for record in records] for column in columns}
    filled = {column: cells for column, cells in every.items() if {*cells} - {None}}
    notes = dict.fromkeys(_NOTES.get(column.text.removeprefix("CPU "), "") for column in filled)
    texts = map(figures.column, filled.values())
    return ReportTable(
        title, " ".join(filter(None, [*notes, note])), (*filled,), tuple(zip(*texts, strict=True))
    )


def division(result: Result) -> str:
    """Return the division of a result, with a mark if it violates the rules."""
    return result.division + "*" * bool(result.rule_violations)


# --- Columns ---


def _interval(text: str, unit: str, path: str) -> list[TableColumn]:
    """Return the columns of a figure and of the ends of its interval."""
    return [
        TableColumn(text, unit, path),
        TableColumn("from", unit, f"{path}_low", is_minor=True),
        TableColumn("to", unit, f"{path}_high", is_minor=True),
    ]


def _scaling(by: str, prefix: str) -> list[TableColumn]:
    return [
        *_interval(f"speed-up by {by}", figures.TIMES, f"{prefix}speedup"),
        *_interval(f"efficiency by {by}", "%", f"{prefix}efficiency"),
    ]


def _swept(key: str) -> TableColumn:
    unit = NETWORK_UNITS.get(key, "")
    return TableColumn(key, unit, lambda row: row.swept[key].removesuffix(unit), is_figure=False)


def _phase(name: str) -> TableColumn:
    # So short that all phases fit onto a terminal of 80 columns.
    heading = "comm." if name == "communication" else name
    return TableColumn(heading, "s", lambda group: group.phases.get(name))


_REACHED = TableColumn("reached", "", lambda group: f"{group.reached}/{len(group.run_ids)}")
_RUNS = TableColumn("runs", "", lambda group: len(group.run_ids))
_THROUGHPUT = TableColumn("throughput", "samples/s", "samples_per_second.mean")
_SWEPT_TIMES = (
    _REACHED,
    *_interval("to the target", "s", "training_seconds_to_target.mean"),
    replace(_THROUGHPUT, is_minor=True),
)
_SWEPT_RATES = (_RUNS, *_interval("throughput", "samples/s", "samples_per_second.mean"))
_EVIDENCE = (
    TableColumn("times", figures.TIMES, "evidence.times_faster"),
    TableColumn("as fast as", "", "evidence.than", is_figure=False),
    TableColumn("p", "", "evidence.p"),
)
_TIMES = (
    _REACHED,
    *_interval("mean", "s", "training_seconds_to_target.mean"),
    TableColumn("fastest", "s", "training_seconds_to_target.minimum"),
    TableColumn("slowest", "s", "training_seconds_to_target.maximum"),
    TableColumn("std. dev.", "s", "training_seconds_to_target.standard_deviation"),
    TableColumn("since start", "s", "wall_seconds_to_target.mean"),
)
_RATES = (
    _RUNS,
    TableColumn("disturbed", "", lambda group: group.disturbed or None),
    TableColumn("contention", "%", "contention_share"),
    TableColumn("its cost", "%", "contention_cost", is_minor=True),
    _THROUGHPUT,
)
_COSTS = (
    TableColumn("comm. share", "%", "communication_share.mean"),
    TableColumn("sent", "B/step", "bytes_sent_per_step.mean"),
    TableColumn("after time", "metric", "accuracy_after_time.mean"),
    TableColumn("cost", "worker-s", "worker_seconds.mean"),
    TableColumn("energy", "J", "energy_joules.mean"),
)
_FAILURES = (
    TableColumn("injected", "", "injected"),
    TableColumn("restarts", "", "failures"),
    TableColumn("one every", "s", "between_seconds"),
    TableColumn("restart", "s", "restart_seconds"),
    TableColumn("saved every", "s", "interval_seconds"),
    TableColumn("in", "s", "checkpoint_seconds"),
    *_interval("kept", "%", "kept.mean"),
    TableColumn("by formula", "%", "expected"),
    TableColumn("best every", "s", "best_interval_seconds"),
)
_RUN = (
    TableColumn("run", "", lambda result: str(result.run_id)),
    TableColumn("name", "", "title", is_figure=False),
)
_RESULT = (
    TableColumn("workers", "", "num_workers", is_minor=True),
    TableColumn("division", "", division, False, True),
    TableColumn("reached", "s", "time_to_target.training_seconds"),
    TableColumn("since start", "s", "time_to_target.wall_seconds"),
    TableColumn("best", "", "best_value"),
    TableColumn("epochs", "", "epochs", is_minor=True),
    TableColumn("throughput", "samples/s", "samples_per_second"),
    TableColumn("comm. share", "%", "communication_share"),
    TableColumn("goodput", "%", "goodput.share"),
    TableColumn("sent", "B/step", "bytes_sent_per_step", is_minor=True),
    TableColumn("checkpoint", "s", "checkpoints.seconds"),
    TableColumn("resumed", "", lambda result: len(result.resumptions) or None),
    TableColumn("CPU contention", "%", "contention_share"),
    TableColumn("cost", "worker-s", "cost.worker_seconds"),
    TableColumn("price", "", "cost.total", is_minor=True),
    TableColumn("energy", "J", "energy_joules"),
)
