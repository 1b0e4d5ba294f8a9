"""Runs that stall, or are overdue, are asked why: each once for each stall."""

import time
from typing import Any

import pytest

from mlbench_master.controller.stalls import ask_of_stalled
from mlbench_master.database.models import Diagnosis, Run
from mlbench_master.runs import diagnoses
from mlbench_master.timestamps import seconds_to_text
from tests.support.rows import make_ranks


class Alerts:
    """A Prometheus that knows nothing but alerts, of ranks and since how many seconds."""

    def __init__(self, run: Run, *ago: float, name: str = "MLBenchRunStalled") -> None:
        self.found = [
            {
                "labels": {"alertname": name, "run_id": str(run.id), "rank": str(rank)},
                "state": "pending",
                "activeAt": seconds_to_text(time.time() - seconds),
            }
            for rank, seconds in enumerate(ago)
        ]

    def alerts(self) -> list[dict[str, Any]]:
        return self.found


def ask(alerts: Any, later: float = 0.0) -> list[str]:
    """Ask, and return why runs were asked by now; all ranks have had their time to answer."""
    ask_of_stalled(alerts, time.time() + later)
    late = Diagnosis.asked_at > time.time() - diagnoses.ANSWER_SECONDS
    Diagnosis.update(asked_at=Diagnosis.asked_at - 2 * diagnoses.ANSWER_SECONDS).where(
        late
    ).execute()
    return [one.reason for one in Diagnosis.select().order_by(Diagnosis.id)]


def test_a_run_is_asked_once_for_each_stall(run: Run) -> None:
    make_ranks(run)
    assert ask(Alerts(run)) == []
    assert ask(Alerts(run, 0, name="MLBenchLossNotFinite")) == []
    began = 10 * diagnoses.ANSWER_SECONDS
    assert ask(Alerts(run, began)) == ["stalled"]
    # Other ranks stall a little later.
    assert ask(Alerts(run, began, 0)) == ["stalled"]
    assert ask(Alerts(run)) == ["stalled"]
    assert ask(Alerts(run, 0)) == ["stalled", "stalled"]


def test_an_overdue_run_is_asked_once(run: Run) -> None:
    make_ranks(run)
    Run.update(started_at=time.time(), deadline_seconds=60.0).execute()
    assert ask(Alerts(run), 70) == []
    assert ask(Alerts(run), 80) == ["deadline"]
    assert ask(Alerts(run), 82) == ["deadline"]


@pytest.mark.parametrize("state", ["INITIALIZED", "FINISHED"])
def test_only_runs_that_go_on_are_asked(run: Run, state: str) -> None:
    make_ranks(run)
    Run.update(state=state).execute()
    assert ask(Alerts(run, 0)) == []
    Run.update(state="STARTED").execute()
    make_ranks(run, attempt=2)
    Run.update(attempt=2).execute()
    assert ask(Alerts(run, 100)) == ["stalled"]
