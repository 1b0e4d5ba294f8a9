"""A comparison as JSON, CSV, Markdown, LaTeX or as the page that compares runs."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from mlbench.contract.comparisons import Comparison, Group
from mlbench.contract.csv_cells import escape_formula
from mlbench.contract.records import Manifest
from mlbench.contract.results import Result
from mlbench.report import figures
from mlbench.report.run_documents import ReadRuns
from mlbench.report.statement import Attribute, facts, lists, subtitle, title
from mlbench.report.tables import ReportTable, tables

SUFFIXES = (".json", ".csv", ".md", ".tex", ".html")


def render(comparison: Comparison, read: ReadRuns, suffix: str) -> str:
    """Return a report in the format of a file with this suffix, one of ``SUFFIXES``.

    ``read`` reads the documents of the runs.
    """
    run_ids = [result.run_id for result in comparison.results]
    match suffix:
        case ".json":
            return json.dumps(comparison.to_fields(), indent=2) + "\n"
        case ".csv":
            return to_csv(comparison)
        case ".md":
            first = read(run_ids[:1])[run_ids[0]]
            return to_markdown(comparison, facts(Manifest.from_fields(first.manifest)))
        case ".tex":
            return to_latex(comparison)
        case _:
            # In the extra `report`.
            from mlbench.report.page import render as render_page  # noqa: PLC0415
            from mlbench.report.pages import comparison_page  # noqa: PLC0415

            return render_page(comparison_page(comparison, read(run_ids)))


# --- CSV: one row for each run, in base units. ---

# The row has these already, or they are no single figures.
_LEFT_OUT = (
    *("curve", "interferences", "ranks", "group_label", "group_num_workers", "group_run_ids"),
    *("group_score_run_ids", "goodput_seconds", "goodput_ranks", "stragglers_ranks", "resumptions"),
)


def to_csv(comparison: Comparison) -> str:
    """Return the runs as CSV with a header: a row has the figures of a run and of its group.

    Missing figures are empty; the curve is left out.
    """
    phases = dict.fromkeys(name for result in comparison.results for name in result.phases)
    groups = {run_id: group for group in comparison.groups for run_id in group.run_ids}
    rows = []
    for result in comparison.results:
        group = groups[result.run_id]
        lists = ("rule_violations", "disturbed", "clock_faults")
        texts = {name: "; ".join(getattr(result, name)) for name in lists}
        row = _flat(Result, result.to_fields() | texts, "", [*phases])
        row |= {"group": group.label, **_flat(Group, group.to_fields(), "group_", [])}
        # No spreadsheet shall take a text for a formula.
        safe = {name: escape_formula(text) for name, text in row.items() if isinstance(text, str)}
        rows.append({escape_formula(name): value for name, value in (row | safe).items()})
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]] if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(
    record: type[Any], values: Mapping[str, Any], prefix: str, phases: Sequence[str]
) -> dict[str, Any]:
    """Return a record's figures, and those of the records in it: None for a record that is None."""
    flat: dict[str, Any] = {}
    hints = get_type_hints(record)
    for part in fields(record):
        name = prefix + part.name
        value: Any = values.get(part.name)
        inner: Any = next(filter(is_dataclass, get_args(hints[part.name])), None)
        if part.name == "phases":
            flat |= {f"{name}_{phase}": value.get(phase) for phase in phases}
        elif name in _LEFT_OUT:
            continue
        elif inner:
            flat |= _flat(inner, value or {}, f"{name}_", phases)
        else:
            flat[name] = value
    return flat


# --- Markdown, with GitHub's tables ---


def to_markdown(comparison: Comparison, environment: Sequence[Attribute] = ()) -> str:
    """Return a report for a README, an issue or a wiki."""
    findings = comparison.findings
    parts = [f"# {escape(title(comparison))}", escape(subtitle(comparison))]
    if findings.sentence:
        parts.append(f"**{escape(findings.sentence)}**")
    for heading, texts in lists(findings):
        parts += [heading, markdown_list(texts)]
    for table in tables(comparison):
        parts += [f"## {escape(table.title)}", escape(table.note), markdown_table(table)]
    if environment:
        parts.append(f"## Run {comparison.results[0].run_id} ran on")
        parts.append(markdown_list([f"{fact.name}: {fact.text}" for fact in environment]))
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(table: ReportTable) -> str:
    """Return the cells of a table, without its title and note."""
    heads = [escape(column.heading) for column in table.columns]
    rules = ["---:" if column.is_figure else ":---" for column in table.columns]
    rows = [heads, rules, *([escape(cell) for cell in row] for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def markdown_list(texts: Sequence[str]) -> str:
    """Return texts as the points of a list."""
    return "\n".join(f"- {escape(text)}" for text in texts)


def escape(text: str) -> str:
    """Return a text that Markdown shows unchanged, on one line."""
    # An underscore within a word has no meaning in Markdown.
    marked = re.sub(r"[\\`*\[\]<>|#~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", text)
    return " ".join(marked.split())


# --- LaTeX ---

_LATEX = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{figures.TIMES: r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "·": r"$\cdot$"},
}
_ESCAPES = str.maketrans(_LATEX)


def to_latex(comparison: Comparison) -> str:
    """Return the tables of a comparison for a paper that loads the package booktabs."""
    return "\n".join(latex_table(table) for table in tables(comparison))


def latex_table(table: ReportTable) -> str:
    """Return a table with its title and note as the caption."""
    heads = [column.heading for column in table.columns]
    alignment = "".join("r" if column.is_figure else "l" for column in table.columns)
    head, *rows = (
        f"    {' & '.join(cell.translate(_ESCAPES) for cell in row)} \\\\\n"
        for row in (heads, *table.rows)
    )
    caption = f"{table.title}. {table.note}".rstrip().translate(_ESCAPES)
    return (
        "\\begin{table}\n"
        "  \\centering\n"
        f"  \\caption{{{caption}}}\n"
        f"  \\begin{{tabular}}{{{alignment}}}\n"
        f"    \\toprule\n{head}    \\midrule\n{''.join(rows)}    \\bottomrule\n"
        "  \\end{tabular}\n"
        "\\end{table}\n"
    )
