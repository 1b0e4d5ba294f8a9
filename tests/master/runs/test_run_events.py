"""Events of a run: kinds, order and texts."""

from typing import Any

import pytest

from mlbench_master.database.connection import store
from mlbench_master.database.models import Run
from mlbench_master.runs.run_events import describe_exit, events_of
from mlbench_master.timestamps import parse
from tests.support.rows import make_ranks, make_run

pytestmark = pytest.mark.usefixtures("database")

Row = tuple[float, str, int, int | None, str]


def made(**fields: Any) -> Run:
    return make_run(**{"created_at": 1.0, "started_at": 2.0} | fields)


def rows(run: Run) -> list[Row]:
    return [
        (parse(event.time) / 1e6, event.kind, event.attempt, event.rank, event.text)
        for event in events_of(Run.get_by_id(run.id))
    ]


ORDERED: Row = (1.0, "created", 0, None, "The run was submitted")
DEADLINE = "stopped at its deadline of 60 s"
READY: Row = (2.0, "ready", 1, None, "2 workers are ready")


def test_a_queued_run() -> None:
    assert rows(made(state="INITIALIZED", attempt=0, started_at=None)) == [ORDERED]


def test_a_run_that_reaches_its_target() -> None:
    target = {"metric": "val_global_Prec@1", "value": 97.0, "lower_is_better": False}
    reached = {"target": target, "target_reached_at": 5.5, "target_train_seconds": 3.02}
    run = made(state="FINISHED", finished_at=7.0, **reached)
    make_ranks(run, assigned_at=2.0, reported_at=3.0, exit_code=0, exited_at=6.0)
    after = "The target was reached after 3.02 s of training: Validation accuracy ≥ 97 %"
    assert rows(run) == [
        *(ORDERED, READY),
        (3.0, "started", 1, None, "2 ranks are running"),
        (5.5, "target", 1, None, after),
        (7.0, "finished", 1, None, "The run finished"),
    ]


def test_a_recording_shipped_later() -> None:
    run = made(state="FINISHED", launcher="shell", finished_at=7.0, shipped_at=401.0)
    make_ranks(run, assigned_at=2.0, reported_at=7.0, exit_code=0, exited_at=7.0)
    shipped = (401.0, "shipped", 1, None, "The recording was shipped 6 min 34 s after its end")
    assert rows(run)[-2:] == [(7.0, "finished", 1, None, "The run finished"), shipped]


def test_a_run_has_started_when_all_ranks_run() -> None:
    run = made()
    first, second = make_ranks(run, assigned_at=2.0)
    store(first, reported_at=4.0)
    assert rows(run) == [ORDERED, READY]
    store(second, reported_at=3.0)
    assert rows(run)[2:] == [(4.0, "started", 1, None, "2 ranks are running")]


def test_failed_ranks_are_events_but_stopped_ranks_are_not() -> None:
    reason = "rank 1 on w-1 exited …\nTrace"
    run = made(state="FAILED", num_workers=3, reason=reason, finished_at=9.0)
    ranks = make_ranks(run, ["w-0", "w-1", "w-2"], assigned_at=2.0, stop=True)
    for rank, (code, at) in zip(ranks, [(-15, 6.0), (-9, 5.0), (3, 6.5)], strict=True):
        store(rank, exit_code=code, exited_at=at)
    assert rows(run)[2:] == [
        (5.0, "exited", 1, 1, "Rank 1 on w-1 was killed by signal 9 (SIGKILL)"),
        (6.5, "exited", 1, 2, "Rank 2 on w-2 exited with code 3"),
        (9.0, "failed", 1, None, "The run failed: rank 1 on w-1 exited …"),
    ]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"at": 4.0, "attempt": 1}, "planned"),
        ({"at": 5.5, "attempt": 1}, "planned"),  # the clock of another node may be ahead
        ({"at": 4.0, "attempt": 1, "problem": "it was too late"}, "exited"),
        ({"at": None, "attempt": None}, "exited"),
        ({"at": 4.0, "attempt": 2}, "exited"),
        ({"at": 8.0, "attempt": 1}, "exited"),
        ({"at": -11.0, "attempt": 1}, "exited"),
    ],
)
def test_an_exit_is_planned_if_a_fault_came_before(fault: dict[str, Any], kind: str) -> None:
    injected = {"rank": 1, "fault": "kill", "seconds": 2.0, "due_at": 4.0, "problem": ""} | fault
    run = made(state="FAILED", reason="rank 1 …", finished_at=9.0, injected=[injected])
    _, second = make_ranks(run, assigned_at=2.0)
    store(second, exit_code=-9, exited_at=5.0)
    [(_, _, attempt, rank, text)] = [row for row in rows(run) if row[1] == kind]
    killed = "Rank 1 on w-1 was killed by signal 9 (SIGKILL)"
    assert (attempt, rank) == (1, 1)
    assert text == ("Planned: " + killed if kind == "planned" else killed)


def test_a_failure_reported_by_the_agent() -> None:
    run = made(state="FAILED", reason="rank 1 on w-1: cut short", finished_at=6.0)
    first, second = make_ranks(run, assigned_at=2.0, stop=True)
    for rank, code, failure in ((first, -15, ""), (second, 0, "cut short")):
        store(rank, exit_code=code, exited_at=5.0, failure=failure)
    told = (5.0, "exited", 1, 1, "Rank 1 on w-1: cut short")
    assert rows(run)[2:] == [told, (6.0, "failed", 1, None, "The run failed: " + run.reason)]


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"state": "STARTED", "stop_requested": True}, []),
        ({"state": "STARTED", "reason": DEADLINE}, []),
        ({"state": "STOPPED", "stop_requested": True}, [("stopped", "The run was stopped")]),
        ({"state": "FINISHED", "reason": DEADLINE}, [("finished", f"The run ended: {DEADLINE}")]),
    ],
)
def test_ranks_that_are_stopped_have_not_failed(fields: dict[str, Any], end: list[Any]) -> None:
    run = made(**fields, finished_at=9.0 if end else None)
    make_ranks(run, assigned_at=2.0, stop=True, exit_code=-15, exited_at=5.0)
    assert rows(run)[2:] == [(9.0, kind, 1, None, text) for kind, text in end]


def test_a_rank_killed_from_outside() -> None:
    run = made()
    make_ranks(run, assigned_at=2.0, exit_code=-15, exited_at=5.0)
    assert [row[1:4] for row in rows(run)[2:]] == [("exited", 1, 0), ("exited", 1, 1)]


def test_a_restarted_run() -> None:
    run = made(max_restarts=1, target_reached_at=9.5)
    make_ranks(run, ["w-0"], assigned_at=2.0, lost="no report from w-0 for 31 s", exited_at=5.0)
    # The stop of the second attempt does not explain the end of the first.
    store(run, attempt=2, stop_requested=True)
    make_ranks(run, ["w-1"], assigned_at=9.0)
    assert rows(run)[2:] == [
        (5.0, "lost", 1, 0, "Rank 0 on w-0 is lost: no report from w-0 for 31 s"),
        (9.0, "restarted", 2, None, "Attempt 2 began: 1 worker is ready"),
        (9.5, "target", 2, None, "The target was reached"),
    ]


def test_simultaneous_events_are_ordered_by_kind() -> None:
    run = made(created_at=2.0, state="FAILED", finished_at=2.0, reason="x")
    make_ranks(run, assigned_at=2.0, reported_at=2.0, exit_code=1, exited_at=2.0)
    kinds = ["created", "ready", "started", "exited", "exited", "failed"]
    assert [row[1] for row in rows(run)] == kinds


def test_exit_codes_are_described() -> None:
    assert describe_exit(1) == "exited with code 1"
    assert describe_exit(-11) == "was killed by signal 11 (SIGSEGV)"
    assert describe_exit(-99) == "was killed by signal 99"
