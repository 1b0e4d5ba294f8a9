"""The controller's view of the database and the pool."""

import math
import time
from dataclasses import replace
from typing import Any

import pytest

from mlbench.contract.names import STREAMS
from mlbench.contract.runspec import WorkerSpec
from mlbench_master.controller.observed_state import RankView, RunView, WarmPool, WorkerView
from mlbench_master.controller.observer import Observer, Stopwatch, store_pods
from mlbench_master.database.connection import store
from mlbench_master.database.models import Diagnosis, MasterUptime, Pod, Rank, Run, Stream
from mlbench_master.pools.pool import PodStatus
from mlbench_master.recording import streams
from mlbench_master.recording.samples import Sample
from tests.master.conftest import Clock
from tests.master.controller.worlds import ORDERED, POLICY
from tests.support.rows import key, line, make_ranks, make_run, make_worker, post, record

pytestmark = [pytest.mark.usefixtures("database")]


def pod(number: int, phase: str = "Running") -> PodStatus:
    return PodStatus(f"w-{number}", number, phase, "127.0.0.1", "here", {"app": "mlbench"})


@pytest.fixture
def observer(clock: Clock) -> Observer:
    return Observer(POLICY, 1 << 20, monotonic=clock)


def see_run(observer: Observer) -> RunView:
    [run] = observer.observe([]).runs
    return run


def see_rank(observer: Observer) -> RankView:
    return see_run(observer).ranks[0]


# --- Workers and pods ---


@pytest.mark.both_databases
def test_workers_are_running_pods_with_a_heartbeat(observer: Observer) -> None:
    MasterUptime.create(id=1, seconds=100, since=40)
    make_worker("w-0", heard=95)
    make_worker("w-1", state="running", heard=39)
    make_worker("w-2", state="exited", seen_at=6.0)
    make_worker("w-3")
    make_worker("stranger")
    observed = observer.observe([pod(0), pod(1), pod(2), pod(3, "Failed"), pod(4)])
    assert observed.workers == (
        WorkerView("w-0", 0, busy=False, silent=5),
        # Not heard from since a pause of the master.
        WorkerView("w-1", 1, busy=True, silent=math.inf),
        WorkerView("w-2", 2, busy=False, silent=math.inf),
    )


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"uid": "uid-1"}, True),
        # The previous pod of this name may have reported "idle" a second ago.
        ({"uid": "uid-2"}, False),
        ({"uid": "uid-1", "usable": False}, False),
        ({"uid": "uid-1", "phase": "Terminating"}, False),
    ],
)
def test_only_current_pods_count(observer: Observer, change: dict[str, Any], counts: bool) -> None:
    make_worker("w-0", pod_uid="uid-1")
    assert bool(observer.observe([replace(pod(0), **change)]).workers) is counts


def test_an_agent_with_an_unknown_attempt_is_busy(observer: Observer) -> None:
    """Agents may report a run of the same id from a database that was lost."""
    ordered = make_run(state="INITIALIZED", attempt=0)
    for attempt, busy in ((1, True), (2, False)):
        make_worker("w-0", state="exited", run_id=ordered.id, attempt=attempt)
        assert [worker.busy for worker in observer.observe([pod(0)]).workers] == [busy]


def test_the_workers_of_the_last_run_are_warm(observer: Observer) -> None:
    make_run(5, state="FINISHED", finished_at=10.0, num_cpus=0.5, image="me/train:1")
    made = WorkerSpec(num_cpus=0.5, image="me/train:1")
    assert observer.observe([]).warm == WarmPool(5, made)
    make_run(9, state="STOPPED", attempt=0, finished_at=20.0)
    assert observer.observe([]).warm is None


@pytest.mark.both_databases
def test_pods_are_stored_for_the_api() -> None:
    store_pods([pod(0), pod(1)])
    assert [p.name for p in Pod.select().order_by(Pod.name)] == ["w-0", "w-1"]
    store_pods([pod(1, "Failed"), pod(2)])
    assert {p.name: p.phase for p in Pod.select()} == {"w-1": "Failed", "w-2": "Running"}
    assert Pod.get_by_id("w-2").labels == {"app": "mlbench"}
    store_pods([])
    assert not Pod.select().exists()


# --- Runs ---


@pytest.mark.both_databases
def test_the_active_run_and_the_end_of_the_last_run(observer: Observer) -> None:
    make_run(state="FAILED", finished_at=time.time() - 10)
    make_run(state="STOPPED", finished_at=time.time() - 5)
    observed = observer.observe([])
    assert observed.runs == ()
    assert observed.idle == pytest.approx(5, abs=2)
    shape: dict[str, Any] = {"num_cpus": 2.0, "max_bandwidth": 20.0, "gpu_enabled": True}
    asked: dict[str, Any] = {"max_restarts": 3, "waiting": "no room", **shape}
    ordered = make_run(5, state="INITIALIZED", attempt=0, **asked)
    make_run(state="INITIALIZED", attempt=0)
    stopped = make_run(state="INITIALIZED", attempt=0, stop_requested=True)
    observed = observer.observe([])
    assert observed.stopped_in_queue == (stopped.id,)
    order: dict[str, Any] = {"id": ordered.id, "num_workers": 5, "shape": WorkerSpec(**shape)}
    [seen] = observed.runs
    assert seen == replace(ORDERED, **order, max_restarts=3, waiting="no room", waited=0)


def test_concurrent_runs_have_separate_times_and_cores(clock: Clock) -> None:
    policy = replace(POLICY, concurrent_runs=2)
    observer = Observer(policy, 1 << 20, cores=(0, 1, 2), monotonic=clock)
    first = make_run()
    make_ranks(first, ["w-0"], assignment={"cpus": [0, 2]})
    [alone] = observer.observe([]).runs
    clock.now += 5
    for _ in range(2):
        make_run(state="INITIALIZED", attempt=0)
    observed = observer.observe([])
    assert [(run.waited, {*run.cores}) for run in observed.runs] == [(5, {0, 2}), (0, set())]
    assert (alone.cores, observed.cores) == (frozenset(), (0, 1, 2))


def test_a_deadline_counts_from_the_start(observer: Observer, clock: Clock) -> None:
    make_run(state="INITIALIZED", attempt=0, deadline_seconds=60.0)
    assert see_run(observer).overdue == -math.inf
    Run.update(started_at=time.time() - 50, reason="it is time").execute()
    assert see_run(observer).overdue == pytest.approx(-10, abs=2)
    assert see_run(observer).stop_reason == "it is time"
    Run.update(started_at=time.time() - 3600).execute()
    assert see_run(observer).overdue == 0, "the controller restarted, or the machine was suspended"
    clock.now += 9
    assert see_run(observer).overdue == 9


def test_a_clock_that_was_set_back_delays_nothing(observer: Observer, clock: Clock) -> None:
    later = time.time() + 3600
    run = make_run(started_at=later, deadline_seconds=20.0)
    seconds = []
    for _ in range(4):
        seconds.append(see_run(observer).overdue)
        clock.now += 9
    assert seconds == [-20, -11, -2, 7]
    Run.update(state="FINISHED", finished_at=later).where(Run.id == run.id).execute()
    assert observer.observe([]).idle == 0
    clock.now += 9
    assert observer.observe([]).idle == 9


def test_the_waiting_time_restarts_with_each_phase(observer: Observer, clock: Clock) -> None:
    run = make_run(state="INITIALIZED", attempt=0)

    def waited() -> float:
        clock.now += 5
        return see_run(observer).waited

    assert [waited(), waited()] == [0, 5]
    store(run, attempt=1)
    make_ranks(run)
    assert [waited(), waited()] == [0, 5]
    Rank.update(lost="silent").execute()
    assert [waited(), waited()] == [0, 5]


def test_a_stopwatch_restarts_after_a_pause_and_for_new_keys() -> None:
    watch = Stopwatch()
    assert watch.look(0, "a") == {"a": 0}
    assert watch.look(9, "b", "a") == {"b": 0, "a": 9}
    assert watch.look(19, "a", "b") == {"a": 19, "b": 10}
    assert watch.look(19, "b") == {"b": 10}
    assert watch.look(19, "b", "a") == {"b": 10, "a": 0}
    assert watch.look(29.1, "b", "a") == {"b": 0, "a": 0}


def test_posted_samples_and_logs_do_not_affect_completeness(run: Run, observer: Observer) -> None:
    make_ranks(run)
    post(f"run/{run.id}", [Sample("a", "", 0, 1.0)])
    streams.append(key(run, 0, "stdout"), 0, b"text")
    assert see_run(observer).recorded
    record(run, line(1.0, a=1))
    assert not see_run(observer).recorded


# --- Ranks ---


@pytest.mark.both_databases
def test_a_rank_from_its_assignment_to_its_end(run: Run, observer: Observer) -> None:
    make_ranks(run, assigned_at=100.0)
    rank = see_rank(observer)
    assert (rank.rank, rank.worker, rank.seen_at) == (0, "w-0", 100.0)
    assert (rank.reported, rank.forgotten, rank.lost) == (False, False, "")

    make_worker("w-0", seen_at=90.0)
    assert see_rank(observer).seen_at == 100.0
    MasterUptime.create(id=1, seconds=12, since=1)
    make_worker("w-0", state="running", run_id=run.id, attempt=1, seen_at=110.0, heard=10)
    Rank.update(reported=True).execute()
    rank = see_rank(observer)
    assert (rank.reported, rank.forgotten, rank.seen_at) == (True, False, 110.0)
    assert rank.silent == 2

    streams.close(run.id, 1, 0, dict.fromkeys(STREAMS, 1))
    Rank.update(exit_code=3, exited_at=120.0, stop=True).execute()
    rank = see_rank(observer)
    assert (rank.exit_code, rank.exited_at, rank.stopping) == (3, 120.0, True)
    for name in STREAMS:
        assert not see_rank(observer).streams_complete
        streams.append(key(run, 0, name), 0, b"x")
    assert see_rank(observer).streams_complete


def test_a_stream_unknown_to_an_earlier_master_is_ignored(run: Run, observer: Observer) -> None:
    make_ranks(run, exit_code=0, exited_at=120.0)
    streams.close(run.id, 1, 0, {})
    Stream.delete().where(Stream.name == "files").execute()
    assert see_rank(observer).streams_complete


@pytest.mark.parametrize(
    ("says", "forgotten", "replaced"),
    [
        ({}, False, False),
        ({"run_id": None, "attempt": None}, True, False),
        ({"run_id": 1}, True, False),
        ({"attempt": 2}, True, False),
        ({"pod_uid": "uid-2"}, False, True),
    ],
)
def test_a_rank_that_its_worker_no_longer_reports(
    run: Run, observer: Observer, says: dict[str, Any], forgotten: bool, replaced: bool
) -> None:
    make_ranks(run, reported=True, pod_uid="uid-1")
    assert not see_rank(observer).replaced, "no other pod has reported"
    make_worker("w-0", **({"run_id": run.id, "attempt": 1, "pod_uid": "uid-1"} | says))
    rank = see_rank(observer)
    assert (rank.forgotten, rank.replaced) == (forgotten, replaced)


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        *(({}, "no memory"), ({"troubled_at": 1000.0}, "no memory")),
        *(({"troubled_at": 900.0}, ""), ({"uid": "uid-2"}, "")),
    ],
)
def test_trouble_of_a_pod_since_the_assignment(
    run: Run, observer: Observer, change: dict[str, Any], trouble: str
) -> None:
    make_ranks(run, pod_uid="uid-1", assigned_at=1000.5)
    troubled = replace(pod(0), **{"uid": "uid-1", "trouble": "no memory", **change})
    [seen] = observer.observe([troubled]).runs
    assert [rank.trouble for rank in seen.ranks] == [trouble, ""]
    assert [rank.pod_uid for rank in seen.ranks] == ["uid-1", "uid-1"]


def test_timeouts_count_only_reachable_time(run: Run, observer: Observer, clock: Clock) -> None:
    make_ranks(run, reported=True)
    MasterUptime.create(id=1, seconds=1, since=0)

    def hear(seconds: int, observer: Observer = observer) -> tuple[float, float]:
        clock.now += 1
        MasterUptime.update(seconds=MasterUptime.seconds + seconds).execute()
        rank = see_rank(observer)
        return rank.ending, rank.stuck

    assert [hear(5), hear(5)] == [(0, 0)] * 2
    Rank.update(stop=True).execute()
    assert [hear(5), hear(5), hear(0), hear(5)] == [(0, 0), (5, 5), (5, 5), (10, 10)]
    Rank.update(exit_code=0, exited_at=1.0).execute()
    streams.close(run.id, 1, 0, {"stdout": 2 << 20})
    assert [hear(5), hear(5)] == [(15, 0), (20, 5)]
    streams.append(key(run, 0, "stdout"), 0, bytes(1 << 20))
    assert hear(5) == (25, 0)
    full = Observer(POLICY, -1, monotonic=clock)
    assert [hear(5, full), hear(5, full)] == [(0, 0)] * 2


def test_only_the_ranks_of_this_attempt_count(run: Run, observer: Observer) -> None:
    make_ranks(run, lost="silent")
    store(run, attempt=2)
    make_ranks(run, ["w-5", "w-6"])
    assert [(one.worker, one.lost) for one in see_run(observer).ranks] == [("w-5", ""), ("w-6", "")]


def test_a_run_is_quiet_while_no_output_arrives(observer: Observer, run: Run, clock: Clock) -> None:
    make_ranks(run)
    see_run(observer)
    clock.now += 8
    assert see_run(observer).quiet == 8
    streams.append(key(run, 0, "stderr"), 0, b"a line\n")
    assert see_run(observer).quiet == 0


def test_diagnoses_are_looked_up_when_a_run_stops(observer: Observer, run: Run) -> None:
    make_ranks(run)
    Diagnosis.create(run=run, attempt=1, reason="asked", asked_at=time.time() - 3)
    assert see_run(observer).asked == math.inf
    Run.update(stop_requested=True).execute()
    view = see_run(observer)
    assert view.asked == pytest.approx(3, abs=1)
    assert not view.answered
    Rank.update(exit_code=0).execute()
    assert see_run(observer).answered
    # A diagnosis of a failed rank needs the exited rank's evidence too.
    Diagnosis.update(reason="failed").execute()
    assert not see_run(observer).answered
