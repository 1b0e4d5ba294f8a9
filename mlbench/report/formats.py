"""A comparison as JSON, CSV, Markdown or HTML."""

import csv
import dataclasses
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlbench.csv_cells import harmless
from mlbench.records import Goal
from mlbench.report.statement import Fact, statement, subtitle, title
from mlbench.report.tables import Table, tables
from mlbench.results import (
    AccuracyAfterTime,
    Comparison,
    Cost,
    Group,
    Result,
    Summary,
    TimeToAccuracy,
)

SUFFIXES = (".json", ".csv", ".md", ".html")


@dataclass(frozen=True)
class Report:
    """What a file shows."""

    comparison: Comparison
    environment: tuple[Fact, ...] = ()
    """Facts about the first run, such as its machines."""
    left_out: int = 0
    """The number of runs of a set that did not finish, and so are not compared."""


def render(report: Report, suffix: str) -> str:
    """Return a report in the format of a file with this suffix, one of ``SUFFIXES``."""
    match suffix:
        case ".json":
            return json.dumps(to_fields(report.comparison, report.left_out), indent=2) + "\n"
        case ".csv":
            return to_csv(report.comparison)
        case ".md":
            return to_markdown(report)
        case _:
            return to_html(report)


def to_fields(comparison: Comparison, left_out: int) -> dict[str, Any]:
    """Return a comparison as JSON holds it, with the number of runs it leaves out."""
    return {**comparison.to_fields(), "left_out": left_out}


# --- CSV: one row for each run, in base units. ---

# Records within a result get a column for each of their fields, even if no run has them.
_PARTS: dict[str, type[Any]] = {
    "target": Goal,
    "time_to_accuracy": TimeToAccuracy,
    "accuracy_after_time": AccuracyAfterTime,
    "cost": Cost,
}
# Fields of a group that the row has already, or that are no single figure.
_NOT_OF_GROUPS = ("label", "num_workers", "run_ids", "phases")
# Fields of a group that are single figures; all others are summaries over its runs.
_SINGLE = ("reached", "speedup", "efficiency", "throughput_speedup", "throughput_efficiency")


def to_csv(comparison: Comparison) -> str:
    """Return the runs as CSV with a header: a row has the figures of a run and of its group.

    Missing figures are empty; the curve is left out.
    """
    groups = {
        run_id: _group_fields(group)
        for group in comparison.to_fields()["groups"]
        for run_id in group["run_ids"]
    }
    phases = dict.fromkeys(name for result in comparison.results for name in result.phases)
    rows = [
        _harmless_row({**_result_fields(result, [*phases]), **groups[result.run_id]})
        for result in comparison.results
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]] if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _harmless_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose texts no spreadsheet takes for formulas."""
    return {
        harmless(name): harmless(value) if isinstance(value, str) else value
        for name, value in row.items()
    }


def _result_fields(result: Result, phases: list[str]) -> dict[str, Any]:
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


# --- Markdown, with GitHub's tables ---


def to_markdown(report: Report) -> str:
    """Return a report for a README, an issue or a wiki."""
    comparison = report.comparison
    said = statement(comparison)
    parts = [f"# {_escape(title(comparison))}", _escape(subtitle(comparison, report.left_out))]
    if said.sentence:
        parts.append(f"**{_escape(said.sentence)}**")
    parts.append(_markdown_list(said.reasons))
    if said.departures:
        parts += ["Departures from the rules of the task:", _markdown_list(said.departures)]
    if said.differences:
        parts += ["What else differs:", _markdown_list(said.differences)]
    parts += [_markdown_table(table) for table in tables(comparison)]
    if report.environment:
        parts.append(f"## Run {comparison.results[0].run_id} ran on")
        parts.append(
            _markdown_list(tuple(f"{fact.name}: {fact.text}" for fact in report.environment))
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(table: Table) -> str:
    heads = [
        _escape(f"{heading.text} ({heading.unit})" if heading.unit else heading.text)
        for heading in table.headings
    ]
    rules = ["---:" if heading.is_figure else ":---" for heading in table.headings]
    rows = [heads, rules, *([_escape(cell) for cell in row] for row in table.rows)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    note = [_escape(table.note), ""] if table.note else []
    return "\n".join([f"## {_escape(table.title)}", "", *note, *lines])


def _markdown_list(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {_escape(text)}" for text in texts)


def _escape(text: str) -> str:
    """Return a text that Markdown shows unchanged, on one line."""
    # An underscore within a word has no meaning in Markdown.
    marked = re.sub(r"[\\`*\[\]<>|#~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", text)
    return " ".join(marked.split())


# --- HTML: one file with plots, which needs no network ---


def to_html(report: Report) -> str:
    """Return a report as a page that stands alone."""
    # Both are in the extra `report`, and matplotlib takes a second to load.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    from mlbench.report.plots import plots  # noqa: PLC0415

    comparison = report.comparison
    templates = Environment(
        loader=PackageLoader("mlbench.report"),
        autoescape=True,  # names, metrics and settings are the user's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("report.html.jinja").render(
        title=title(comparison),
        subtitle=subtitle(comparison, report.left_out),
        said=statement(comparison),
        plots=plots(comparison),
        tables=tables(comparison),
        environment=report.environment,
        first_run=comparison.results[0].run_id,
    )
