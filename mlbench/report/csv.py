"""A comparison as CSV: one row for each run, in base units, headed as the records name them."""

import csv
import dataclasses
import io
from collections.abc import Mapping
from typing import Any

from mlbench.results import (
    AccuracyAfterTime,
    Comparison,
    Cost,
    Result,
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


def render(comparison: Comparison) -> str:
    """Return the runs as CSV with a header; what there is none of is empty, ``curve`` left out."""
    groups = {run_id: group.label for group in comparison.groups for run_id in group.run_ids}
    phases = dict.fromkeys(name for result in comparison.results for name in result.phases)
    rows = [
        {**_fields(result, [*phases]), "group": groups.get(result.run_id)}
        for result in comparison.results
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]] if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


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
                fields.update(_flat(name, value or {}))
            case _:
                fields[name] = value
    return fields


def _flat(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{name}_{part.name}": fields.get(part.name) for part in dataclasses.fields(_PARTS[name])
    }
