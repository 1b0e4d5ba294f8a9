"""Commands, diffs and queries in the documentation."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench.contract.names import ENV_HOME
from mlbench.local.home import Home
from tests.support.processes import run_text

_DOCS = Path(__file__).parents[2] / "docs"
MONITORING = (_DOCS / "monitoring.md").read_text()
PROMQL = (_DOCS / "promql.md").read_text()
_QUESTION = re.compile(r"^(#{2,3}) (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_QUERY = re.compile(r"^```promql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Question:
    """A question in docs/promql.md and its query."""

    title: str
    query: str
    is_graph: bool
    """Whether to plot the query over the run's time."""


def read_questions(run_id: str) -> list[Question]:
    """Return the questions in docs/promql.md, with the run's id filled in."""
    questions, section = [], ""
    for level, title, text in _QUESTION.findall(PROMQL):
        if level == "##":
            section = title
            continue
        [query] = _QUERY.findall(text)
        query = query.replace('run_id="1"', f'run_id="{run_id}"')
        questions.append(Question(title, query, section.endswith("course of a run")))
    return questions


def commands_below(heading: str) -> str:
    """Return the first block of commands below a heading of docs/monitoring.md."""
    [text] = re.findall(rf"^#+ {heading}\n(.*?)^#", MONITORING, re.MULTILINE | re.DOTALL)
    block = re.search(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block
    return block[1]


def environ_of(stack: Home) -> Mapping[str, str]:
    """Return the environment of a terminal that has ``mlbench`` on its path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, ENV_HOME: str(stack.root)}


def type_in(commands: str, folder: Path, stack: Home) -> str:
    """Run commands in a shell, and return the commands with their output."""
    process = run_text(["bash", "-eu"], input=commands, cwd=folder, env=environ_of(stack))
    assert process.returncode == 0, f"{commands}\n{process.stdout}\n{process.stderr}"
    return f"$ {commands}{process.stdout}"


def patch(file: str, diff: str, copy: Path) -> None:
    """Apply a diff to the copy of a file."""
    text = (copy / file).read_text()
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] or line for line in lines if line[0] != "+")
        new = "".join(line[1:] or line for line in lines if line[0] != "-")
        assert text.count(old) == 1, f"found {text.count(old)} times in {file}:\n{old}"
        text = text.replace(old, new)
    (copy / file).write_text(text)
