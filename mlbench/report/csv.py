"""A comparison as CSV: one row for each run, in base units, headed as the records name them.

Each row also holds the figures of the run's group, so that one table says everything.
"""

import csv
import dataclasses
import io
from collections.abc import Mapping
from typing import Any

from mlbench.csv_cells import harmless
from mlbench.results import (
    AccuracyAfterTime,
    Comparison,
    Cost,
    Group,
    Result,
    Summary,
    Target,
    TimeToAccuracy,
)

# Records within a result: a column for each of their fields, also where no run has them.
_PARTS: dict[str, type[Any]] = {
    "target": Target,
    "time_to_accuracy": TimeToAccuracy,
    "accuracy_after_time": AccuracyAfterTime,
    "cost": Cost,
}
# What a row says already, or is no single figure.
_NOT_OF_GROUPS = ("label", "num_workers", "run_ids", "phases")
# What a group has of its own; all else is a summary over its runs.
_SINGLE = ("reached", "speedup", "efficiency", "throughput_speedup", "throughput_efficiency")


def render(comparison: Comparison) -> str:
    """Return the runs as CSV with a header; what there is none of is empty, ``curve`` left out."""
    groups = {
        run_id: _group_fields(group)
        for group in comparison.to_fields()["groups"]
        for run_id in group["run_ids"]
    }
    phases = dict.fromkeys(name for result in comparison.results for name in result.phases)
    rows = [
        _harmless({**_fields(result, [*phases]), **groups[result.run_id]})
        for result in comparison.results
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]] if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _harmless(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose texts no spreadsheet takes for formulas; numbers stay numbers."""
    return {
        harmless(name): harmless(value) if isinstance(value, str) else value
        for name, value in row.items()
    }


def _fields(result: Result, phases: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in result.to_fields().items():
        match name:
            case "curve":
                continue
            case "departures":
                fields[name] = "; ".join(value)
            case "phases":
                fields.update({f"phases_{phase}": value.get(phase) for phase in phases})
            case _ if name in _PARTS:
                fields.update(_flat(name, _PARTS[name], value or {}))
            case _:
                fields[name] = value
    return fields


def _group_fields(group: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"group": group["label"]}
    for part in dataclasses.fields(Group):
        if part.name in _NOT_OF_GROUPS:
            continue
        name, value = f"group_{part.name}", group[part.name]
        fields.update({name: value} if part.name in _SINGLE else _flat(name, Summary, value or {}))
    return fields


def _flat(name: str, record: type[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}_{part.name}": fields.get(part.name) for part in dataclasses.fields(record)}
