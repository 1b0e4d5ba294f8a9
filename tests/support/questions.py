"""The questions of docs/promql.md, and the query that answers each."""

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "promql.md"
_QUESTION = re.compile(r"^(#{2,3}) (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_QUERY = re.compile(r"^```promql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Question:
    """A question of the page."""

    title: str
    query: str
    is_graph: bool
    """Whether the query is to be drawn over the time of the run."""


def read_questions(run_id: str) -> list[Question]:
    """Return the questions of the page, asked about one run."""
    questions, section = [], ""
    for level, title, text in _QUESTION.findall(PAGE.read_text()):
        if level == "##":
            section = title
            continue
        [query] = _QUERY.findall(text)
        query = query.replace('run_id="1"', f'run_id="{run_id}"')
        questions.append(Question(title, query, section.endswith("course of a run")))
    return questions
