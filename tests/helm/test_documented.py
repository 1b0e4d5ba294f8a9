"""The chart takes the values of each `helm` command in the documentation."""

import re
from pathlib import Path

import pytest

from tests.helm.conftest import Render

_ROOT = Path(__file__).parents[2]
_PAGES = [*(_ROOT / "docs").rglob("*.md"), _ROOT / "README.md"]
_COMMANDS = [
    command
    for page in _PAGES
    for command in re.findall(
        r"^\s*(helm .*)$", page.read_text().replace("\\\n", " "), re.MULTILINE
    )
    if "--set" in command
]


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_chart_takes_documented_values(command: str, render: Render) -> None:
    values = [value.strip("'\"") for value in re.findall(r"--set[ =](\S+)", command)]
    assert values
    assert render(*values)


def test_there_are_documented_commands() -> None:
    assert len(_COMMANDS) > 2
