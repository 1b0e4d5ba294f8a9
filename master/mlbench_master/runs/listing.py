"""The list of runs: search, paging, and counts by state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Annotated, Any

from peewee import ColumnBase, Expression, fn

from mlbench.contract import records
from mlbench.contract.fields import Before, Field
from mlbench.contract.names import RunState
from mlbench_master.database.connection import database, snapshot
from mlbench_master.database.models import Rank, Run
from mlbench_master.openapi.parameters import Names, Positive, Text, Whole
from mlbench_master.runs import presenters, run_columns, run_query
from mlbench_master.runs.run_query import ANY, Query

# One string, because searching each column takes twice as long. Words have no line breaks.
_SEARCHED: ColumnBase = Run.id.cast("text")
for _column in (
    *(Run.display_name, Run.name, Run.benchmark, Run.command, Run.swept),
    *(Run.set_name, Run.state, Run.launcher, Run.title, Run.tags),
):
    _SEARCHED = _SEARCHED.concat("\n").concat(fn.COALESCE(_column.cast("text"), ""))
# Marks that the pages show on runs.
_MARKS = {
    "disturbed": Run.figures.cast("text").contains('"disturbed": true'),
    "not a number": Run.not_finite.is_null(False),
}


@dataclass(frozen=True, kw_only=True)
class CountQuery:
    """The parameters of ``GET /api/runs/counts/``."""

    query: Annotated[
        Query, Before(run_query.parse, Text), Field(example="benchmark=digits workers>=2 first")
    ] = ANY
    """Search terms, all of which must match: conditions such as `exchange=topk`, `accuracy > 95` or
    `created>7d`, and words in the id, names, benchmark, command, set, swept values, state or tags.
    `a OR b` matches either term; `NOT a` negates a term."""


@dataclass(frozen=True, kw_only=True)
class StateQuery(CountQuery):
    """The parameters that select runs by search terms and state."""

    # Forms send an empty state.
    state: Annotated[RunState | None, Before(lambda state: state or None)] = None
    """Return only runs in this state."""


@dataclass(frozen=True, kw_only=True)
class RunQuery(StateQuery):
    """The parameters of ``GET /api/runs/``."""

    from_id: Annotated[Whole, Field(example=1)] = 0
    """Lowest run id to return."""
    before: Annotated[Whole | None, Field(example=100)] = None
    """Return only runs with an id below this one."""
    limit: Annotated[Positive | None, Field(example=50)] = None
    """Maximum number of runs: the newest ones, or the first ones of `order`."""
    pod: Annotated[Text | None, Field(example="local-mlbench-worker-0")] = None
    """Return only runs whose latest attempt has a rank on this pod."""
    order: Annotated[Text, Field(example="-created")] = ""
    """Field to sort by; prefix `-` for descending. Default: oldest first."""
    columns: Annotated[Names, Field(example="accuracy,duration")] = ()
    """Comma-separated fields to include as `values` of each run."""


def list_runs(query: RunQuery) -> list[records.Run]:
    """Return the runs that match, from one snapshot of the database.

    Raises:
        BadFieldError: a field is unknown, or does not allow a value (400).
    """
    fields = {name: run_columns.find(name, "columns") for name in query.columns}
    values = [field.sql().alias(f"column_{i}") for i, field in enumerate(fields.values())]
    condition = matching(query) & (Run.id >= query.from_id)
    if query.before is not None:
        condition &= Run.id < query.before
    if query.pod is not None:
        ranks = Rank.select().where(Rank.run == Run.id, Rank.worker == query.pod)
        # Imported runs are left out: pods of other installations may have the same name.
        condition &= Run.origin.is_null()
        condition &= fn.EXISTS(ranks.where(Rank.attempt == Run.attempt))
    rows = Run.select(Run, *values).where(condition).limit(query.limit)
    with snapshot():
        if query.order:
            direction = "desc" if query.order.startswith("-") else "asc"
            order = run_columns.find(query.order.removeprefix("-"), "order").order
            keys = [getattr(key, direction)(nulls="LAST") for key in order]
            runs = list(rows.order_by(*keys, Run.id.desc()))
        else:
            runs = list(rows.order_by(Run.id.desc()))[::-1]
        described = describe_all(runs)
    if not fields:
        return described
    return [
        replace(
            run,
            values={
                name: field.format_value(getattr(row, f"column_{i}"))
                for i, (name, field) in enumerate(fields.items())
            },
        )
        for run, row in zip(described, runs, strict=True)
    ]


def describe_all(runs: Sequence[Run]) -> list[records.Run]:
    """Return the API records of runs, with the run that replaced each in its benchmark set."""
    sets = {run.set_name for run in runs if run.set_name is not None}
    newest: dict[tuple[str | None, int | None], int] = {}
    if sets:
        condition = Run.set_name.in_(sets), Run.state == "FINISHED"
        rows = Run.select(Run.set_name, Run.slot, fn.MAX(Run.id)).where(*condition)
        places = database.execute(rows.group_by(Run.set_name, Run.slot))
        newest = {(name, place): run_id for name, place, run_id in places}
    described = []
    for run in presenters.describe_all(runs):
        replacement = newest.get((run.set_name, run.slot), 0)
        described.append(replace(run, replaced_by=replacement) if replacement > run.id else run)
    return described


def count_runs(query: Query) -> records.RunCounts:
    """Count all runs, and the matching runs in each state."""
    by_state = Run.select(Run.state, fn.COUNT(Run.id)).where(matching(StateQuery(query=query)))
    with snapshot():
        states = dict(database.execute(by_state.group_by(Run.state)))
        return records.RunCounts(Run.select().count(), states, str(query))


def matching(query: StateQuery) -> Expression:
    """Return the SQL condition of a query.

    Raises:
        BadFieldError: a field is unknown, or does not allow a value (400).
    """
    condition = Run.state == query.state if query.state else Run.id >= 0
    for terms in query.query.clauses:
        alternatives: list[Any] = []
        for term in terms:
            if term.field:
                matches = run_columns.condition(term)
            else:
                marks = [marked for mark, marked in _MARKS.items() if term.value.lower() in mark]
                matches = reduce(or_, marks, _SEARCHED.contains(term.value))
            alternatives.append(run_columns.negation(matches) if term.negated else matches)
        condition &= reduce(or_, alternatives)
    return condition
