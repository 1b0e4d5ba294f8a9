"""Stalled and overdue runs are diagnosed once per stall."""

import time
from typing import Any

import pytest

from mlbench_master.controller.stalls import ask_of_stalled
from mlbench_master.database.models import Diagnosis, Notification, Run
from mlbench_master.runs import diagnoses
from mlbench_master.timestamps import seconds_to_text
from tests.support.rows import make_ranks


class Alerts:
    """A Prometheus client with one alert per rank; `ago` is each alert's age in seconds."""

    def __init__(
        self, run: Run, *ago: float, name: str = "MLBenchRunStalled", state: str = "pending"
    ) -> None:
        self.found = [
            {
                "labels": {"alertname": name, "run_id": str(run.id), "rank": str(rank)},
                "state": state,
                "activeAt": seconds_to_text(time.time() - seconds),
            }
            for rank, seconds in enumerate(ago)
        ]

    def alerts(self) -> list[dict[str, Any]]:
        return self.found


def ask(alerts: Any, later: float = 0.0, *, announces: bool = False) -> list[str]:
    """Look for stalls; return the reasons of all diagnoses so far, which have timed out."""
    ask_of_stalled(alerts, time.time() + later, announces=announces)
    time_out = Diagnosis.update(asked_at=Diagnosis.asked_at - 2 * diagnoses.ANSWER_SECONDS)
    time_out.where(Diagnosis.asked_at > time.time() - diagnoses.ANSWER_SECONDS).execute()
    return [diagnosis.reason for diagnosis in Diagnosis.select().order_by(Diagnosis.id)]


def test_a_run_is_diagnosed_once_per_stall(run: Run) -> None:
    make_ranks(run)
    assert ask(Alerts(run)) == []
    assert ask(Alerts(run, 0, name="MLBenchLossNotFinite")) == []
    began = 10 * diagnoses.ANSWER_SECONDS
    assert ask(Alerts(run, began)) == ["stalled"]
    # Other ranks stall a little later: still the same stall.
    assert ask(Alerts(run, began, 0)) == ["stalled"]
    assert ask(Alerts(run)) == ["stalled"]
    assert ask(Alerts(run, 0)) == ["stalled", "stalled"]


def test_an_overdue_run_is_diagnosed_once(run: Run) -> None:
    make_ranks(run)
    Run.update(started_at=time.time(), deadline_seconds=60.0).execute()
    assert ask(Alerts(run), 70) == []
    assert ask(Alerts(run), 80) == ["deadline"]
    assert ask(Alerts(run), 82) == ["deadline"]


@pytest.mark.parametrize("state", ["INITIALIZED", "FINISHED"])
def test_only_active_runs_are_diagnosed(run: Run, state: str) -> None:
    make_ranks(run)
    Run.update(state=state).execute()
    assert ask(Alerts(run, 0)) == []
    Run.update(state="STARTED").execute()
    make_ranks(run, attempt=2)
    Run.update(attempt=2).execute()
    assert ask(Alerts(run, 100)) == ["stalled"]


def test_a_hang_is_announced_once_per_attempt(run: Run) -> None:
    make_ranks(run)
    for alerts, announces in (
        (Alerts(run, 5), True),
        (Alerts(run, 15, state="firing"), False),
        (Alerts(run, 15, state="firing", name="MLBenchStraggler"), True),
    ):
        ask(alerts, announces=announces)
    assert not Notification.select().exists()
    for _ in range(2):
        ask(Alerts(run, 15, 12, state="firing"), announces=True)
    Run.update(attempt=2).execute()
    ask(Alerts(run, 0, state="firing"), announces=True)
    events = [(event.run_id, event.attempt, event.event) for event in Notification.select()]
    assert events == [(run.id, 1, "hung"), (run.id, 2, "hung")]
