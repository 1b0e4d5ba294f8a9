"""The agent protocol: the effects of reports, from the first poll to the last."""

import time
from dataclasses import replace
from typing import Any

import pytest
from peewee import Database

from mlbench.contract.conversion import convert
from mlbench_master.database.models import MasterUptime, Pod, Rank, Run, Stream, Worker
from mlbench_master.recording import streams
from mlbench_master.runs.worker_reports import Report, decide, is_steady, next_ship_seconds, poll
from tests.support.known import known
from tests.support.rows import key, make_ranks, make_run, see_pod

IDLE = Report(state="idle", ip="127.0.0.1")


def report(state: str, run: Run, attempt: int = 1, rank: int = 0, **fields: Any) -> Report:
    if state == "exited":
        fields = {"exit_code": 0, "exited_at": time.time(), "sizes": {}} | fields
    fields = {"run_id": run.id, "attempt": attempt, "rank": rank} | fields
    return convert(Report, {"state": state, "ip": ""} | fields)


def about(state: str, attempt: int = 1) -> Report:
    """Return a report of an agent with rank 0 of run 7."""
    return report(state, Run(id=7), attempt)


def rank(**fields: Any) -> Rank:
    """Return a rank assigned to an agent, by default rank 0 of run 7."""
    return Rank(**({"run": Run(id=7), "attempt": 1, "rank": 0, "worker": "w-0"} | fields))


@pytest.mark.parametrize(
    ("said", "current", "do"),
    [
        (IDLE, None, "wait"),
        (about("running"), None, "stop"),
        (about("exited"), None, "stop"),
        (IDLE, rank(), "start"),
        (IDLE, rank(stop=True), "wait"),
        (IDLE, rank(lost="silent"), "wait"),
        (IDLE, rank(reported=True), "wait"),
        (about("running"), rank(reported=True), "wait"),
        (about("running"), rank(reported=True, stop=True), "stop"),
        (about("running"), rank(reported=True, lost="silent"), "stop"),
        (about("exited"), rank(reported=True), "wait"),
        (about("exited"), rank(reported=True, stop=True), "wait"),
        # The agent is still busy with an earlier attempt or another run.
        (about("running"), rank(attempt=2), "stop"),
        (about("exited"), rank(attempt=2), "stop"),
        (about("running"), rank(run=Run(id=8)), "stop"),
        (about("exited"), rank(run=Run(id=8)), "stop"),
    ],
)
def test_replies_to_reports(said: Report, current: Rank | None, do: str) -> None:
    assert decide(said, current) == do


@pytest.fixture
def rank_0(run: Run) -> Rank:
    first, _ = make_ranks(run)
    return first


def reload(rank: Rank) -> Rank:
    found: Rank = Rank.get(worker=rank.worker, attempt=rank.attempt)
    return found


@pytest.mark.both_databases
def test_all_polls_of_a_run(run: Run, rank_0: Rank) -> None:
    assert poll("other", IDLE).do == "wait"
    begun = poll("w-0", IDLE)
    assert (begun.do, begun.assignment) == ("start", rank_0.assignment)
    assert rank_0.assigned_at <= begun.time <= time.time()
    # The response was lost, so it is repeated.
    again = poll("w-0", IDLE)
    assert again == replace(begun, time=again.time)
    assert not reload(rank_0).reported

    going = poll("w-0", report("running", run))
    assert (going.do, going.assignment) == ("wait", None)
    assert reload(rank_0).reported
    reported_at = known(reload(rank_0).reported_at)
    assert rank_0.assigned_at <= reported_at <= time.time()
    poll("w-0", report("running", run))
    assert reload(rank_0).reported_at == reported_at

    streams.append(key(run), 0, b"123")
    sizes = {"metrics": 3, "stdout": 7}
    ended = report("exited", run, exit_code=3, exited_at=rank_0.assigned_at, sizes=sizes)
    assert poll("w-0", ended).do == "wait"
    assert (reload(rank_0).exit_code, reload(rank_0).exited_at) == (3, rank_0.assigned_at)
    final_sizes = {stream.name: stream.final_size for stream in Stream.select()}
    assert final_sizes == {"metrics": 3, "stdout": 7, "stderr": 0, "files": 0}
    # The agent repeats its report; the first one counts.
    poll("w-0", report("exited", run, exit_code=0, exited_at=99.0))
    assert (reload(rank_0).exit_code, reload(rank_0).exited_at) == (3, rank_0.assigned_at)

    Run.update(state="FAILED").where(Run.id == run.id).execute()
    assert poll("w-0", ended).do == "stop"
    assert poll("w-0", IDLE).do == "wait"


def test_a_rank_stopped_before_its_start_is_lost(run: Run, rank_0: Rank) -> None:
    """Otherwise the run would wait forever for an exit."""
    Rank.update(stop=True).execute()
    assert poll("w-0", IDLE).do == "wait"
    assert reload(rank_0).lost == "it was stopped before it began"
    assert reload(rank_0).exited_at is not None
    assert not Rank.get(rank=1).lost


def test_a_lost_rank_stays_lost(run: Run, rank_0: Rank) -> None:
    Rank.update(reported=True, lost="silent", exited_at=5.0).execute()
    assert poll("w-0", report("running", run)).do == "stop"
    poll("w-0", report("exited", run, exit_code=0))
    assert (reload(rank_0).exit_code, reload(rank_0).exited_at) == (None, 5.0)


def test_a_report_about_another_workers_rank_changes_nothing(run: Run, rank_0: Rank) -> None:
    see_pod("stranger")
    assert poll("stranger", report("exited", run)).do == "stop"
    assert not reload(rank_0).reported
    assert not Stream.select().exists()


@pytest.mark.parametrize(
    ("exited_at", "expected"), [(12.5, 990.0), (1095.0, 995.0), (1e11, pytest.approx(1000.0))]
)
def test_the_time_of_an_exit_is_corrected_and_limited(
    run: Run, rank_0: Rank, exited_at: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlbench_master.runs.run_clock.time.time", lambda: 1000.0)
    Rank.update(assigned_at=990.0, clock_ahead=100.0).execute()
    poll("w-0", report("exited", run, exited_at=exited_at))
    assert reload(rank_0).exited_at == expected
    assert reload(rank_0).reported_at == reload(rank_0).exited_at, "the exit is the first report"


@pytest.mark.parametrize("state", ["idle", "running", "exited"])
def test_an_agent_without_a_known_pod_is_ignored(run: Run, rank_0: Rank, state: str) -> None:
    """An agent may poll before the pool has seen its pod. It waits, and a process keeps running."""
    Pod.delete().where(Pod.name == "w-0").execute()
    answer = poll("w-0", report(state, run))
    assert (answer.do, answer.next_poll_seconds) == ("wait", 1.0)
    assert not Worker.select().exists()
    assert not reload(rank_0).reported


@pytest.mark.both_databases
def test_every_poll_is_a_heartbeat(database: Database) -> None:
    see_pod("w-0")
    before = time.time()
    poll("w-0", IDLE)
    worker = Worker.get_by_id("w-0")
    assert (worker.state, worker.run_id, worker.ip) == ("idle", None, "127.0.0.1")
    assert before <= worker.seen_at <= time.time()
    assert worker.heard == 0
    MasterUptime.create(id=1, seconds=7, since=1)
    poll("w-0", report("running", Run(id=7)))
    worker = Worker.get_by_id("w-0")
    assert (worker.state, worker.run_id, worker.attempt) == ("running", 7, 1)
    assert worker.heard == 7


@pytest.mark.parametrize("count", [1, 51, 800])
def test_all_workers_poll_at_most_150_times_a_second(database: Database, count: int) -> None:
    see_pod("last")
    with database.atomic():
        for number in range(count - 1):
            see_pod(f"w-{number}")
    assert poll("last", IDLE).next_poll_seconds == max(3.0, count / 150)
    # An agent that waited for its response polls later.
    assert poll("last", IDLE, waited_seconds=2.0).next_poll_seconds == max(4.0, count / 150)


def test_the_ship_interval_grows_with_the_ranks() -> None:
    assert [next_ship_seconds(ranks) for ranks in (1, 500, 1000)] == [1.0, 1.0, 2.0]
    assert next_ship_seconds(1, waited_seconds=2.0) == 4.0


def test_an_agent_in_another_pod_is_ignored(run: Run) -> None:
    make_ranks(run, pod_uid="uid-1")
    see_pod("w-0", "uid-1")
    old, new = (replace(IDLE, pod_uid=uid) for uid in ("uid-0", "uid-1"))
    assert poll("w-0", old).do == "wait"
    assert poll("w-0", report("running", run, pod_uid="uid-0")).do == "stop"
    assert not Worker.select().exists()
    assert not Rank.get(worker="w-0").reported
    assert poll("w-0", new).do == "start"
    assert Worker.get_by_id("w-0").pod_uid == "uid-1"
    see_pod("w-0", "uid-2")
    assert poll("w-0", new).do == "wait", "a new pod has replaced the agent's pod"


def test_a_new_pod_does_not_get_the_rank_of_its_predecessor(run: Run) -> None:
    """The other ranks would not find it at the address of the previous pod."""
    make_ranks(run, pod_uid="uid-1")
    see_pod("w-0", "uid-2")
    assert poll("w-0", replace(IDLE, pod_uid="uid-2")).do == "wait"
    said = Worker.get_by_id("w-0")
    assert said.pod_uid == "uid-2", "the controller must see the replacement"


def test_a_worker_with_a_lost_rank_can_start_another(run: Run) -> None:
    make_ranks(run, lost="silent", reported=True)
    other = make_run()
    make_ranks(other, ["w-0"], assignment={"run_id": other.id})
    assert poll("w-0", report("running", run)).do == "stop"
    begin = poll("w-0", IDLE)
    assert (begin.do, begin.assignment) == ("start", {"run_id": other.id})


@pytest.mark.both_databases
def test_only_the_first_failure_is_stored(run: Run, rank_0: Rank) -> None:
    poll("w-0", report("running", run, failure="cut short"))
    poll("w-0", report("running", run, failure="then replaced"))
    assert (reload(rank_0).failure, reload(rank_0).exit_code) == ("cut short", None)


def test_a_failure_after_the_exit_counts(run: Run, rank_0: Rank) -> None:
    poll("w-0", report("exited", run))
    poll("w-0", report("exited", run, failure="cannot be read"))
    assert reload(rank_0).failure == "cannot be read"


def test_streams_cut_after_the_exit_end_at_their_received_size(run: Run, rank_0: Rank) -> None:
    stdout = key(run, name="stdout")
    streams.append(stdout, 0, b"12345")
    poll("w-0", report("exited", run, sizes={"stdout": 100, "stderr": 100}))
    poll("w-0", report("exited", run, sizes={"stdout": 0, "stderr": 100}))
    # The reported final size never grows.
    poll("w-0", report("exited", run, sizes={"stdout": 200, "stderr": 200}))
    sizes = {s.name: (s.size, s.final_size) for s in Stream.select()}
    assert sizes == {"stdout": (5, 5), "stderr": (0, 100), "metrics": (0, 0), "files": (0, 0)}


@pytest.mark.both_databases
def test_an_unchanged_report_is_recognized(run: Run, rank_0: Rank) -> None:
    running = report("running", run)
    poll("w-0", running)
    assert is_steady("w-0", running)
    assert not is_steady("w-0", report("running", run, failure="cut short"))
    exited = report("exited", run, sizes={"stdout": 9})
    poll("w-0", exited)
    assert is_steady("w-0", exited)
    assert not is_steady("w-0", report("exited", run, sizes={"stdout": 8})), "a shorter file is new"
    Run.update(state="FINISHED").execute()
    assert not is_steady("w-0", exited), "the agent may forget the rank"
