"""A comparison as JSON, CSV, Markdown, LaTeX or as the page that compares runs."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlbench.contract.comparisons import Comparison
from mlbench.contract.csv_cells import escape_formula
from mlbench.report import figures
from mlbench.report.pages import ReadRuns, comparison_page
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
            return to_markdown(comparison, facts(first.manifest))
        case ".tex":
            return to_latex(comparison)
        case _:
            # In the extra `report`.
            from mlbench.report.page import render as render_page  # noqa: PLC0415

            return render_page(comparison_page(comparison, read(run_ids)))


# --- CSV: one row for each run, in base units. ---


def to_csv(comparison: Comparison) -> str:
    """Return the runs as CSV with a header: a row has the figures of a run and of its group.

    Missing figures are empty. Figures that no run has are left out, and so are lists of records.
    """
    groups = {run_id: group for group in comparison.groups for run_id in group.run_ids}
    rows = []
    for result in comparison.results:
        of_group = groups[result.run_id].to_fields()
        fields = result.to_fields() | {"group": of_group.pop("label")}
        rows.append(dict([*_flat(fields), *_flat(of_group, "group_")]))
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, [*columns], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the figures of a record and of the records in it, by names that spreadsheets accept."""
    for field, value in fields.items():
        name = escape_formula(prefix + field)
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}_")
        elif isinstance(value, list | tuple):
            if value and all(isinstance(text, str) for text in value):
                yield name, escape_formula("; ".join(value))
        elif value is not None:
            yield name, escape_formula(value) if isinstance(value, str) else value


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
    return "\n".join(map(latex_table, tables(comparison)))


def latex_table(table: ReportTable) -> str:
    """Return a table with its title and note as the caption."""
    alignment = "".join("r" if column.is_figure else "l" for column in table.columns)
    head, *rows = (
        f"    {' & '.join(cell.translate(_ESCAPES) for cell in row)} \\\\\n"
        for row in ([column.heading for column in table.columns], *table.rows)
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
