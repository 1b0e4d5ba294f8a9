"""Injected faults: their effect on a rank, their time, and the report to the master."""

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from mlbench_science.fault_injector import Faults
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.master_client import MasterClient, Offset
from tests.conftest import wait_for
from tests.support.assignments import ASSIGNMENT
from tests.support.known import known
from tests.support.scripted import Reply, Scripted, serving
from tests.worker.agent.conftest import Begin

_AHEAD = 100.0
"""Seconds by which this machine's clock is ahead of the master's."""


class Harmed:
    """A rank, and a master that receives the reports of its faults."""

    def __init__(self, attempt: Attempt, master: Scripted) -> None:
        self.attempt = attempt
        self.asked = master.asked
        offset, url = Offset(_AHEAD, 0.001), master.url
        self.faults = Faults(attempt, "w-0", lambda: MasterClient(url, "token"), lambda: offset)

    def order(self, fault: str, within: float = 0.3, number: int = 1) -> float:
        """Schedule a fault twice, like repeated polls; return its time by the master's clock."""
        at = time.time() - _AHEAD + within
        due = [{"id": number, "fault": fault, "at": at}]
        for _ in range(2):
            self.faults.follow(due)
        return at

    def told(self) -> dict[str, Any]:
        wait_for(lambda: len(self.asked) == 1, what="the fault is reported")
        assert self.asked[0].path == "/api/workers/w-0/runs/7/faults/1"
        return dict(json.loads(self.asked[0].body))

    def stopped_share(self, seconds: float) -> float:
        """Return the fraction of the time in which the process was stopped."""
        process, until = psutil.Process(known(self.attempt.pid)), time.monotonic() + seconds
        seen = []
        while time.monotonic() < until:
            seen.append(process.status() == psutil.STATUS_STOPPED)
            time.sleep(0.007)
        return sum(seen) / len(seen)


@pytest.fixture
def harmed(begin: Begin) -> Iterator[Harmed]:
    attempt = begin("sh", "-c", "echo; sleep 60; :")
    with serving(Reply(204)) as master:
        yield Harmed(attempt, master)


def test_a_rank_is_killed_on_time_by_the_masters_clock(harmed: Harmed) -> None:
    due = harmed.order("kill")
    assert harmed.attempt.ended.wait(20)
    ended = known(harmed.attempt.exit)
    assert ended.code == -signal.SIGKILL
    assert ended.at - _AHEAD == pytest.approx(due, abs=1)
    told = harmed.told()
    assert told == {"at": pytest.approx(due, abs=1), "attempt": ASSIGNMENT.attempt}
    assert told["at"] >= due


def test_a_stopped_rank_continues_after_the_given_time(harmed: Harmed) -> None:
    process = psutil.Process(known(harmed.attempt.pid))
    # Wait for the child: a shell that is stopped during vfork is not in state "stopped".
    started = ["sleep"]
    wait_for(
        lambda: [child.name() for child in process.children()] == started, what="the child sleeps"
    )
    [child] = process.children()
    harmed.order("stop:1s", within=0.0)
    stopped = {psutil.STATUS_STOPPED}
    wait_for(lambda: {process.status(), child.status()} == stopped, 5, "both are stopped")
    wait_for(lambda: process.status() != psutil.STATUS_STOPPED, what="the process continues")
    assert child.status() != psutil.STATUS_STOPPED
    assert harmed.attempt.exit is None


def test_a_slow_rank_runs_for_the_given_share_of_the_time(harmed: Harmed) -> None:
    harmed.order("slow:50%", within=0.0)
    harmed.told()
    assert harmed.stopped_share(2.0) == pytest.approx(0.5, abs=0.25)
    harmed.attempt.stop()
    assert harmed.attempt.ended.wait(20), "a stopped process must be ended as well"


def test_a_slow_rank_recovers_after_the_given_time(harmed: Harmed) -> None:
    harmed.order("slow:20%:1s", within=0.0)
    assert harmed.stopped_share(0.9) > 0.5
    time.sleep(0.5)
    assert harmed.stopped_share(0.5) == 0


def test_a_fault_that_is_not_possible_is_reported(harmed: Harmed) -> None:
    harmed.order("network:3s", within=0.0)
    assert harmed.told()["problem"] == "this worker has no network to cut"
    assert harmed.attempt.exit is None


def test_a_fault_due_before_the_process_started_is_skipped(harmed: Harmed) -> None:
    harmed.order("kill", within=-60.0)
    harmed.order("stop:1s", within=0.0, number=2)
    wait_for(lambda: len(harmed.asked) == 1, what="the other fault is injected")
    assert harmed.asked[0].path.endswith("/2")
    assert harmed.attempt.exit is None
