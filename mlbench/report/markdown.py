"""A comparison as Markdown, for a README, an issue or a wiki."""

import re

from mlbench.report.manifest import Fact
from mlbench.report.statement import statement, subtitle, title
from mlbench.report.tables import Table, tables
from mlbench.results import Comparison


def render(comparison: Comparison, environment: tuple[Fact, ...] = (), left_out: int = 0) -> str:
    """Return a comparison as Markdown with GitHub's tables.

    Args:
        comparison: what to show.
        environment: facts about the first run, such as its machines.
        left_out: how many runs did not finish, and are not compared.
    """
    said = statement(comparison)
    parts = [f"# {_escape(title(comparison))}", _escape(subtitle(comparison, left_out))]
    if said.sentence:
        parts.append(f"**{_escape(said.sentence)}**")
    parts.append(_list(said.reasons))
    if said.departures:
        parts += ["Departures from the rules of the task:", _list(said.departures)]
    if said.differences:
        parts += ["What else differs:", _list(said.differences)]
    parts += [_table(table) for table in tables(comparison)]
    if environment:
        parts.append(f"## Run {comparison.results[0].run_id} ran on")
        parts.append(_list(tuple(f"{fact.name}: {fact.text}" for fact in environment)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(table: Table) -> str:
    heads = [
        _escape(f"{heading.text} ({heading.unit})" if heading.unit else heading.text)
        for heading in table.headings
    ]
    rules = ["---:" if heading.is_figure else ":---" for heading in table.headings]
    rows = [heads, rules, *([_escape(cell) for cell in row] for row in table.rows)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    note = [_escape(table.note), ""] if table.note else []
    return "\n".join([f"## {_escape(table.title)}", "", *note, *lines])


def _list(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {_escape(text)}" for text in texts)


def _escape(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    # An underscore within a word is none of its marks.
    marked = re.sub(r"[\\`*\[\]<>|#~&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", text)
    return " ".join(marked.split())
