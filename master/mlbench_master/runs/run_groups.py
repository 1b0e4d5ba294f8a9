"""Groups of runs with equal values of fields, and means of other fields."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Annotated, Any

from mlbench.contract.fields import Field
from mlbench.contract.records import GroupMean, RunGroup
from mlbench.contract.reported_settings import Setting
from mlbench.evaluation import statistics
from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.openapi.parameters import Names, Text
from mlbench_master.runs import run_columns
from mlbench_master.runs.listing import StateQuery, matching

MAX_GROUPS = 500
# The fields that distinguish the runs of a benchmark set.
_OF_SET = ("set", "swept", "workers")
# The fields that identify the code of a run.
_OF_CODE = ("code", "commit")


@dataclass(frozen=True, kw_only=True)
class GroupQuery(StateQuery):
    """The parameters of ``GET /api/runs/groups/``."""

    group: Annotated[Names, Field(example="exchange,workers")]
    """Comma-separated fields to group by. `set` also groups by the swept values and the number of
    workers."""
    order: Annotated[Text, Field(example="-runs")] = ""
    """Field, mean or number of `runs` to sort groups by; prefix `-` for descending. Default: the
    fields of `group`."""
    columns: Annotated[Names, Field(example="accuracy,duration")] = ()
    """Comma-separated fields to average in each group."""


def group_runs(query: GroupQuery) -> list[RunGroup]:
    """Group runs by the values of fields.

    Raises:
        BadFieldError: a field is unknown, or the runs form too many groups (400).
    """
    names = dict.fromkeys(chain(*(_OF_SET if name == "set" else (name,) for name in query.group)))
    keys = {name: run_columns.find(name, "group") for name in names}
    figures = {name: run_columns.find(name, "columns") for name in query.columns}
    codes = [run_columns.FIELDS[name] for name in _OF_CODE]
    fields = [*keys.values(), *figures.values(), *codes]
    if not keys:
        raise BadFieldError("group", "must name a field, such as exchange")
    rows = Run.select(*(field.sql() for field in fields)).where(matching(query)).tuples()
    groups = defaultdict[tuple[Setting, ...], list[Sequence[Any]]](list)
    for row in rows.iterator():
        values_by_key: list[list[Setting]] = []
        for field, value in zip(keys.values(), row, strict=False):
            if field.kind == "tags":  # a run is in the group of each of its tags
                tags = json.loads(value) if isinstance(value, str) else value
                values_by_key.append(tags or [None])
            elif field.kind == "moment" and value is not None:
                values_by_key.append([str(field.format_value(value))[: len("2018-08-03")]])
            else:
                values_by_key.append([field.format_value(value)])
        for key in product(*values_by_key):
            groups[key].append(row[len(keys) :])
        if len(groups) > MAX_GROUPS:
            problem = f"more than {MAX_GROUPS} groups by {', '.join(keys)}"
            advice = "Choose another field, or search for fewer runs."
            raise BadFieldError("group", f"{problem}. {advice}")
    summaries = [
        RunGroup(
            values=dict(zip(keys, key, strict=True)),
            runs=len(rows),
            means={
                name: _mean(field, (row[i] for row in rows))
                for i, (name, field) in enumerate(figures.items())
            },
            code_versions=len({code for row in rows if any(code := row[len(figures) :])}),
        )
        for key, rows in groups.items()
    ]
    return _sorted(summaries, query.order)


def _mean(field: run_columns.QueryField, values: Iterable[Any]) -> GroupMean | None:
    settings = map(field.format_value, values)
    known = statistics.known(
        value
        for value in settings
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    if not known:
        return None
    mean = statistics.mean_of_group(known)
    if percent := field.units.get("%"):
        low, high = statistics.of_mean_share(known, whole=100 * percent)
        mean = replace(mean, low=low, high=high)
    return mean


def _sorted(groups: list[RunGroup], order: str) -> list[RunGroup]:
    """Sort groups by a field, a mean or the number of runs, groups without a value last."""
    name = order.removeprefix("-")
    if groups and order and name not in {*groups[0].values, *groups[0].means, "runs"}:
        raise BadFieldError("order", f"must be a displayed field, or runs (got {name!r})")

    def value(group: RunGroup) -> Setting:
        mean = group.means.get(name)
        return mean.mean if mean else group.values.get(name, group.runs if name == "runs" else None)

    ordered = sorted(groups, key=lambda group: [_key(field) for field in group.values.values()])
    if order:
        ordered.sort(key=lambda group: _key(value(group)), reverse=order != name)
        ordered.sort(key=lambda group: value(group) is None)
    return ordered


def _key(value: Setting) -> tuple[int, float, str]:
    """Return the sort key of a value: numbers before strings, None last."""
    match value:
        case None:
            return 2, 0, ""
        case str():
            return 1, 0, value.lower()
        case _:
            return 0, value, ""
