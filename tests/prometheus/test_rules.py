"""promtool finds nothing wrong with configuration and rules, and they do what their cases say."""

import subprocess
from pathlib import Path

import pytest

from tests.prometheus.reading import FOLDER, TESTS, read_cases, read_rules


def run(*command: Path | str) -> None:
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_and_its_rules_are_valid(promtool: Path) -> None:
    run(promtool, "check", "config", "--lint=all", "--lint-fatal", FOLDER / "prometheus.yml")


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_rules_do_what_their_cases_say(promtool: Path, path: Path) -> None:
    run(promtool, "test", "rules", path)


@pytest.mark.parametrize("name", read_rules("record"))
def test_every_recording_rule_has_a_case_with_values(name: str) -> None:
    shown = [case["expr"] for case in read_cases("promql_expr_test") if case["exp_samples"]]
    assert any(name in expression for expression in shown)
