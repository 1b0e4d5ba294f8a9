"""Each runbook belongs to an alert and has four sections, and its queries and commands work."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlbench.cli import app
from mlbench_master.reading.promql import PrometheusClient
from tests.conftest import PrometheusServer
from tests.support.rules import ROOT, read_rules

RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((.+?)\)")

runbooks = pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)


def lines(path: Path, language: str) -> list[str]:
    """Return the lines of all code blocks of a language."""
    return [
        line
        for tag, block in _BLOCK.findall(path.read_text())
        if tag == language
        for line in block.splitlines()
    ]


def test_every_runbook_belongs_to_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS} == read_rules("alert").keys()


@runbooks
def test_a_runbook_has_four_sections(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {path.stem}\n")
    assert _SECTION.findall(text) == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
    assert {language for language, _ in _BLOCK.findall(text)} <= {"promql", "sh"}
    assert all((path.parent / target).is_file() for target in _LINK.findall(text))


@runbooks
def test_prometheus_accepts_the_queries(path: Path, shared_prometheus: PrometheusServer) -> None:
    queries = lines(path, "promql")
    assert queries
    client = PrometheusClient(shared_prometheus.url)
    for query in queries:
        client.query(query)
    client.close()


@runbooks
def test_the_commands_are_valid(path: Path) -> None:
    for line in lines(path, "sh"):
        program, *words = shlex.split(line)
        assert program == "mlbench"
        # With --help, options are validated, but the command does not run.
        result = CliRunner().invoke(app, [*words, "--help"])
        assert result.exit_code == 0, result.output
