"""Tables and lists in Markdown, as GitHub and MkDocs show them."""

import re
from collections.abc import Sequence

from mlbench.report.tables import ReportTable


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
