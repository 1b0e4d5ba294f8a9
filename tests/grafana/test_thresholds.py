"""Dashboards turn red where the alerts speak: both are told the same limits."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from grafana import thresholds

if TYPE_CHECKING:  # imported by itself, the SDK warns, and warnings are errors here
    from grafana_foundation_sdk.models.dashboard import ThresholdsConfig

_RULES = Path(__file__).parents[2] / "prometheus" / "rules"


def expression(file: str, name: str) -> str:
    """Return the expression of a rule."""
    groups = yaml.safe_load((_RULES / file).read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    [expr] = [rule["expr"] for rule in rules if name in (rule.get("alert"), rule.get("record"))]
    return str(expr)


@pytest.mark.parametrize(
    ("shown", "file", "rule", "limit"),
    [
        (thresholds.STRAGGLER, "alerts.yml", "MLBenchStraggler", r"ratio1m > ([\d.]+)"),
        (thresholds.SPOOL, "alerts.yml", "MLBenchSpoolGrowing", r"> ([\d.]+) \* max"),
        (thresholds.HEARTBEAT_AGE, "alerts.yml", "MLBenchWorkerLost", r"last30s > ([\d.]+)"),
        (
            thresholds.PROGRESS_AGE,
            "recording.yml",
            "run_rank:mlbench_worker_progress:limit_seconds",
            r",\s+([\d.]+)\s+\)\s+unless",
        ),
    ],
)
def test_red_is_where_the_alert_speaks(
    shown: "ThresholdsConfig", file: str, rule: str, limit: str
) -> None:
    [found] = re.findall(limit, expression(file, rule))
    [red] = [step.value for step in shown.steps if step.color == thresholds.RED]
    assert red == float(found)
