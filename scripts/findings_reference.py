"""Write the rules of findings into docs/findings.md, from their docstrings."""

import inspect
from pathlib import Path

from mlbench.evaluation.findings import RULES

_PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
_HEADING = "## Rules\n"


def page() -> str:
    """Return the page with the rules of today after its heading."""
    rules = []
    for rule in RULES:
        text = " ".join((inspect.getdoc(rule) or "").split()).replace("``", "`")
        text = text.removeprefix("Report ").removeprefix("that ")
        text = text[:1].upper() + text[1:]
        rules.append(f"- `{rule.__name__}`: {text}\n")
    head, _, _ = _PAGE.read_text().partition(_HEADING)
    return f"{head}{_HEADING}\n{''.join(rules)}"
