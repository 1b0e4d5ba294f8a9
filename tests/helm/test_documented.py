"""The chart accepts the values of all `helm` commands and YAML blocks in the documentation."""

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
_KUBERNETES = (_ROOT / "docs" / "kubernetes.md").read_text()
# Values of kube-prometheus-stack belong to another chart.
_BLOCKS = [
    block
    for block in re.findall(r"```yaml\n(.*?)```", _KUBERNETES, re.DOTALL)
    if "prometheusSpec" not in block
]


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_chart_accepts_documented_values(command: str, render: Render) -> None:
    values = [value.strip("'\"") for value in re.findall(r"--set[ =](\S+)", command)]
    assert values
    assert render(*values)


@pytest.mark.parametrize("block", _BLOCKS)
def test_the_chart_accepts_documented_blocks(block: str, render: Render, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(block)
    assert render(file=file)


def test_there_are_documented_commands_and_blocks() -> None:
    assert len(_COMMANDS) > 2
    assert len(_BLOCKS) > 2
