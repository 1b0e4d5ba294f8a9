"""Injected faults on a real stack: their schedule, the restart, and the events of the run."""

from datetime import datetime
from itertools import count

from mlbench import ApiClient
from mlbench.contract.faults import fault_schedule
from mlbench.contract.records import Run, RunEvent
from tests.conftest import wait_for
from tests.support.stacks import order_command, reload, run_to_end

_TEXT = "kill:every=40s"
_COMMAND = "sh -c 'sleep 5'"


def events(client: ApiClient, run: Run, kind: str) -> list[RunEvent]:
    recorded = client.get_run_events(run.id).result().value
    return [event for event in recorded if event.kind == kind]


def seconds(event: RunEvent) -> float:
    return datetime.fromisoformat(event.time).timestamp()


def test_a_scheduled_kill_is_on_time_and_the_run_resumes(client: ApiClient) -> None:
    for seed in count():
        first, second, *_ = fault_schedule(_TEXT, seed, 2)
        if 2 < first.seconds < 4 and first.rank == 1 and second.seconds > 90:
            break
    run = order_command(client, "fails", _COMMAND, num_workers=2, seed=seed, faults=_TEXT)
    assert (run.faults, run.max_restarts) == (_TEXT, 100)
    ended = run_to_end(client, run)
    assert (ended.state, ended.attempt) == ("FINISHED", 2), ended.reason
    [fault] = events(client, run, "fault")
    assert (fault.attempt, fault.rank) == (1, 1)
    assert fault.text == f"Fault: kill of rank 1, planned at {first.seconds:.1f} s"
    began, _ = events(client, run, "started")
    assert abs(seconds(fault) - seconds(began) - first.seconds) < 1
    [killed] = events(client, run, "planned")
    assert killed.rank == 1
    assert killed.text.endswith("was killed by signal 9 (SIGKILL)")
    assert abs(seconds(killed) - seconds(fault)) < 1


def test_a_manual_kill_fails_a_run_without_restarts(client: ApiClient) -> None:
    run = order_command(client, "harmed", "sleep 1000", num_workers=2)
    wait_for(lambda: events(client, run, "started"), what="the run has started")
    client.inject_fault(run.id, "kill").result()
    ended = run_to_end(client, run)
    assert (ended.state, ended.attempt) == ("FAILED", 1)
    [fault] = events(client, run, "fault")
    assert (fault.rank, fault.text) == (0, "Fault: kill of rank 0, by hand")
    assert reload(client, run).reason.startswith("rank 0 on")
