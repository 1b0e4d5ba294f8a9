"""Dashboards turn red where the alerts speak: both are told the same limits."""

import re
from typing import TYPE_CHECKING

import pytest

from grafana import thresholds
from mlbench import palette
from tests.prometheus.reading import read_rules

if TYPE_CHECKING:  # imported by itself, the SDK warns, and warnings are errors here
    from grafana_foundation_sdk.models.dashboard import ThresholdsConfig

_RULES = read_rules("alert") | read_rules("record")


@pytest.mark.parametrize(
    ("shown", "rule", "limit"),
    [
        (thresholds.STRAGGLER, "MLBenchStraggler", r"ratio1m > ([\d.]+)"),
        (thresholds.SPOOL, "MLBenchSpoolGrowing", r"> ([\d.]+) \* max"),
        (thresholds.HEARTBEAT_AGE, "MLBenchWorkerLost", r"last30s > ([\d.]+)"),
        (
            thresholds.PROGRESS_AGE,
            "run_rank:mlbench_worker_progress:limit_seconds",
            r",\s+([\d.]+)\s+\)\s+unless",
        ),
    ],
)
def test_red_is_where_the_alert_speaks(shown: "ThresholdsConfig", rule: str, limit: str) -> None:
    [found] = re.findall(limit, _RULES[rule]["expr"])
    [red] = [step.value for step in shown.steps if step.color == palette.RED]
    assert red == float(found)
