"""The list of runs: those that match, page by page, and how many there are in each state."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

from peewee import ColumnBase, Expression, Ordering, fn

from mlbench.contract import records
from mlbench_master.database.connection import database, snapshot
from mlbench_master.database.models import Rank, Run
from mlbench_master.runs import columns, describing
from mlbench_master.runs.query import ANY, Query, Term

# In one text, as looking for a word in each takes twice as long; no word has a line's end.
_SEARCHED: ColumnBase = Run.id.cast("text")
for _column in (
    *(Run.display_name, Run.name, Run.benchmark, Run.command, Run.swept),
    *(Run.set_name, Run.state, Run.launcher, Run.title, Run.tags),
):
    _SEARCHED = _SEARCHED.concat("\n").concat(fn.COALESCE(_column.cast("text"), ""))
# What the list says of a run in these words.
_MARKS = {
    "disturbed": Run.figures.cast("text").contains('"disturbed": true'),
    "not a number": Run.not_finite.is_null(False),
}


@dataclass(frozen=True)
class Wanted:
    """Which runs are wanted."""

    from_id: int = 0
    before: int | None = None
    """Only runs with smaller ids."""
    state: str | None = None
    query: Query = ANY
    """Its words must be in a run's id, names, benchmark, command, set, swept values, state,
    launcher, title, tags or marks."""
    pod: str | None = None
    """Only runs whose latest attempt has a rank there."""
    limit: int | None = None
    """Only the newest so many of them, or the first in their order."""
    order: str = ""
    """The field that they are sorted by, the largest first after a minus; else the oldest first."""
    columns: Sequence[str] = ()
    """The fields whose values are wanted."""


def list_runs(wanted: Wanted) -> list[records.Run]:
    """Return the runs that are wanted, all as they are at one moment.

    Raises:
        BadFieldError: there is no such field, or a value cannot be (400).
    """
    chosen = {name: columns.find(name, "columns") for name in wanted.columns}
    values = [field.sql().alias(f"column_{i}") for i, field in enumerate(chosen.values())]
    rows = Run.select(Run, *values).where(matching(wanted)).limit(wanted.limit)
    with snapshot():
        if wanted.order:
            runs = list(rows.order_by(*_order(wanted.order), Run.id.desc()))
        else:
            runs = list(rows.order_by(Run.id.desc()))[::-1]
        described = describe_all(runs)
    if not chosen:
        return described
    return [
        replace(
            run,
            values={
                name: field.spell(getattr(row, f"column_{i}"))
                for i, (name, field) in enumerate(chosen.items())
            },
        )
        for run, row in zip(described, runs, strict=True)
    ]


def _order(order: str) -> list[Ordering]:
    """Return what runs are sorted by; those without a value come last either way."""
    keys = columns.find(order.removeprefix("-"), "order").order
    turn = "desc" if order.startswith("-") else "asc"
    return [getattr(key, turn)(nulls="LAST") for key in keys]


def describe_all(runs: Sequence[Run]) -> list[records.Run]:
    """Describe runs, also by which other one of its set each was replaced."""
    newest = _newest_finished({run.set_name for run in runs if run.set_name is not None})
    described = describing.describe_all(runs)
    others = [newest.get((run.set_name, run.place), 0) for run in described]
    return [
        replace(run, replaced_by=other) if other > run.id else run
        for run, other in zip(described, others, strict=True)
    ]


def _newest_finished(sets: Collection[str]) -> Mapping[tuple[str | None, int | None], int]:
    """Return the newest run that has finished at each place of some sets."""
    if not sets:
        return {}
    there = Run.set_name.in_(sets), Run.state == "FINISHED"
    rows = Run.select(Run.set_name, Run.place, fn.MAX(Run.id)).where(*there)
    places = database.execute(rows.group_by(Run.set_name, Run.place))
    return {(name, place): run_id for name, place, run_id in places}


def count_runs(query: Query) -> records.RunCounts:
    """Return how many runs there are in all, and in each state of those that match."""
    by_state = Run.select(Run.state, fn.COUNT(Run.id)).where(matching(Wanted(query=query)))
    with snapshot():
        states = dict(database.execute(by_state.group_by(Run.state)))
        return records.RunCounts(Run.select().count(), states, str(query))


def matching(wanted: Wanted) -> Expression:
    """Return what holds of the runs that are wanted, in SQL.

    Raises:
        BadFieldError: there is no such field, or a value cannot be (400).
    """
    condition = Run.id >= wanted.from_id
    if wanted.before is not None:
        condition &= Run.id < wanted.before
    if wanted.state is not None:
        condition &= Run.state == wanted.state
    if wanted.pod is not None:
        there = Rank.select().where(Rank.run == Run.id, Rank.worker == wanted.pod)
        # Another installation's pod may have the same name.
        condition &= Run.origin.is_null()
        condition &= fn.EXISTS(there.where(Rank.attempt == Run.attempt))
    for terms in wanted.query.clauses:
        condition &= reduce(or_, map(_condition, terms))
    return condition


def _condition(term: Term) -> Any:
    """Return a term of a query in SQL."""
    if term.field:
        condition = columns.condition(term)
    else:
        marks = [has_it for mark, has_it in _MARKS.items() if term.value.lower() in mark]
        condition = reduce(or_, marks, _SEARCHED.contains(term.value))
    return columns.negation(condition) if term.negated else condition
