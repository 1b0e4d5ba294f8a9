"""External ranks join the run of their job."""

import time
from typing import Any

import pytest
from falcon.testing import TestClient
from peewee import Database

from mlbench.contract.conversion import InvalidFieldsError, convert
from mlbench.contract.pod_token import PodIdentity, identify
from mlbench.contract.records import Joined
from mlbench_master.controller.observed_state import PoolPolicy
from mlbench_master.controller.observer import Observer, store_pods
from mlbench_master.database.models import Pod, Rank, Run, Worker
from mlbench_master.errors import BadFieldError, ConflictError
from mlbench_master.pools.pool import PodStatus
from mlbench_master.recording import streams
from mlbench_master.runs import lifecycle, presenters, run_clock
from mlbench_master.runs.joining import JoinRequest, join
from mlbench_master.runs.requests import RunRequest
from mlbench_master.runs.run_events import events_of
from mlbench_master.runs.worker_reports import Report, poll
from mlbench_master.settings import InstallationLimits
from mlbench_master.timestamps import parse
from tests.conftest import AGENT_SECRET, as_pod
from tests.master.resources.agents import ship
from tests.support.rows import key, see_pod

pytestmark = pytest.mark.both_databases

LIMITS = InstallationLimits(workers=16)
JOB: dict[str, Any] = {
    "key": "4711",
    "rank": 0,
    "num_workers": 2,
    "launcher": "slurm",
    "command": "python 'my train.py' --lr 0.1",
    "host": "node-0",
    "uid": f"{1:032x}",
}


def come(rank: int = 0, holder: str = "me", uid: int | None = None, **fields: Any) -> Joined:
    its = {"rank": rank, "host": f"node-{rank}", "uid": f"{uid or rank + 1:032x}"}
    return join(convert(JoinRequest, JOB | its | fields), holder, LIMITS, AGENT_SECRET)


def report(joined: Joined, state: str, uid: int, **fields: Any) -> str:
    rank = int(joined.pod.rpartition("-")[2])
    said = {"state": state, "ip": "", "pod_uid": f"{uid:032x}", "run_id": joined.run_id}
    said |= {"attempt": joined.attempt, "rank": rank} | fields
    return poll(joined.pod, convert(Report, said)).do


def finish(joined: Joined, state: str = "FINISHED") -> None:
    lifecycle.end(joined.run_id, state=state, finished_at=1.0)


def test_the_first_rank_creates_the_run(database: Database) -> None:
    joined = come(name="GPT-2", working_dir="/home/me", max_restarts=3)
    run = Run.get_by_id(joined.run_id)
    assert (run.state, run.attempt, run.launcher, run.benchmark) == ("STARTED", 1, "slurm", "")
    assert (run.own_name, run.command, run.max_restarts) == ("GPT-2", JOB["command"], 3)
    assert run.started_at is not None
    assert joined.pod == f"run-{run.id}-rank-0"
    assert identify(joined.token, AGENT_SECRET) == PodIdentity(joined.pod, JOB["uid"])
    [rank] = Rank.select()
    assert (rank.worker, rank.pod_uid) == (joined.pod, JOB["uid"])
    pod = Pod.get_by_id(joined.pod)
    assert (pod.external, pod.node, pod.phase) == (True, "node-0", "Running")
    described = presenters.describe(run)
    assert (described.launcher, described.ranks[0].pod) == ("slurm", joined.pod)


def test_a_run_starts_with_its_first_process(database: Database) -> None:
    joined, now = come(0, began_ago=10.0), time.time()
    assert Run.get_by_id(joined.run_id).started_at == pytest.approx(now - 10, abs=5)
    come(1, began_ago=60.0)
    run = Run.get_by_id(joined.run_id)
    assert run.started_at == pytest.approx(now - 60, abs=5)
    assert run_clock.now(run) == pytest.approx(now, abs=5)
    began = [rank.assigned_at for rank in Rank.select().order_by(Rank.rank)]
    assert began == pytest.approx([now - 10, now - 60], abs=5)
    # The time breakdown and the cost begin here.
    assert (run.created_at, run.room_at) == (run.started_at, run.started_at)


def test_ranks_start_when_their_processes_start(database: Database) -> None:
    now = time.time()
    for uid, ago in ((1, 60.0), (2, 50.0)):
        joined = come(uid - 1, began_ago=ago)
        report(joined, "exited", uid, exit_code=0, exited_at=now - 40)
    events = events_of(Run.get_by_id(joined.run_id))
    [started] = [event for event in events if event.kind == "started"]
    assert parse(started.time) / 1e6 == pytest.approx(now - 50, abs=5)


def test_other_ranks_join_the_run_idempotently(database: Database) -> None:
    first, second = come(0), come(1)
    assert second.run_id == first.run_id
    assert second.token != first.token
    assert (come(0), come(1)) == (first, second)
    assert (Run.select().count(), Rank.select().count()) == (1, 2)


def test_other_holders_and_keys_have_separate_runs(database: Database) -> None:
    joined = [come(0), come(0, holder="you"), come(0, holder=""), come(0, key="4712")]
    assert len({join.run_id for join in joined}) == 4


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"uid": 9}, "rank: rank 0 of run {id} has already joined from node-0"),
        ({"rank": 1, "num_workers": 8}, "num_workers: run {id} of this job has 2 ranks (got 8)"),
        (
            {"rank": 1, "attempt": 1},
            "attempt: run {id} of this job is already at attempt 2 (got 1)",
        ),
    ],
)
def test_conflicts_are_refused(database: Database, fields: dict[str, Any], why: str) -> None:
    joined = come(0, attempt=2)
    with pytest.raises(ConflictError) as refused:
        come(**{"attempt": 2, **fields})
    assert str(refused.value) == why.format(id=joined.run_id)


def test_the_ranks_of_a_job_are_limited(database: Database) -> None:
    with pytest.raises(BadFieldError, match=r"must be at most 16 .*Raise MLBENCH_LIMIT_WORKERS"):
        come(num_workers=17)
    assert not Run.select().exists()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"key": ""}, {"key": "a\0"}, {"key": "x" * 201}, {"rank": 2}, {"rank": True}),
        *({"attempt": 10_001}, {"began_ago": 367 * 86400.0}, {"began_ago": -1}),
        *({"attempt": 0}, {"num_workers": 2**31}, {"launcher": ""}, {"launcher": "x" * 21}),
        *({"command": "'"}, {"command": " "}, {"uid": "X" * 32}, {"name": " a"}, {"more": 1}),
    ],
)
def test_malformed_requests_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidFieldsError):
        convert(JoinRequest, JOB | wrong)


def test_a_new_attempt_ends_the_previous_one(database: Database) -> None:
    first, _ = come(0), come(1)
    assert report(first, "running", 1) == "wait"
    streams.append(key(Run.get_by_id(first.run_id)), 0, b"{}")
    again = come(1, attempt=2, uid=12)
    assert (again.run_id, again.attempt) == (first.run_id, 2)
    assert come(0, attempt=2, uid=11).run_id == first.run_id
    before = Rank.select().where(Rank.attempt == 1)
    assert {rank.lost for rank in before} == {"attempt 2 began before all of it had come"}
    # Recorders of the previous attempt must stop.
    assert report(first, "running", 1) == "stop"
    assert report(again, "running", 12) == "wait"
    view = observe().external[0]
    assert (view.attempt, view.missing) == (2, [])
    assert not any(rank.replaced or rank.forgotten for rank in view.ranks)


def test_a_key_can_be_reused_after_the_end(database: Database) -> None:
    first = come(0)
    finish(first)
    with pytest.raises(ConflictError, match=f"run {first.run_id} .* ended, so rank 1 is too late"):
        come(1)
    assert come(0) == first, "a process of the ended run must join it again"
    again = come(0, uid=21)
    assert come(1).run_id == again.run_id > first.run_id
    finish(again)
    requeued = come(0, attempt=2)
    assert requeued.run_id > again.run_id
    assert Run.get_by_id(requeued.run_id).attempt == 2
    finish(requeued)
    larger = come(2, num_workers=4)
    assert larger.run_id > requeued.run_id


def test_pods_of_an_external_run_are_deleted_at_its_end(database: Database) -> None:
    joined, other = come(0), come(0, key="other")
    see_pod("w-0")
    store_pods([PodStatus("w-0", 0, "Running", "", "here", {})])
    assert {pod.name for pod in Pod.select()} == {"w-0", joined.pod, other.pod}
    finish(joined)
    assert {pod.name for pod in Pod.select()} == {"w-0", other.pod}
    assert {worker.name for worker in Worker.select()} == {other.pod}
    exited = {"exit_code": 0, "exited_at": 1.0, "sizes": {}}
    assert report(joined, "exited", 1, **exited) == "stop"
    store_pods([])
    assert {pod.name for pod in Pod.select()} == {other.pod}
    lifecycle.delete(Run.get_by_id(other.run_id))
    finish(other, "STOPPED")
    assert not Pod.select().exists()
    assert not Run.select().where(Run.id == other.run_id).exists()


def observe() -> Any:
    return Observer(PoolPolicy(2, 120.0, 60.0), spool_bytes=1 << 30).observe([])


def test_an_external_run_does_not_occupy_the_pool(database: Database) -> None:
    joined = come(0)
    world = observe()
    assert (world.runs, world.warm, [run.id for run in world.external]) == ((), None, [1])
    assert world.external[0].missing == [1]
    [rank] = world.external[0].ranks
    assert (rank.reported, rank.forgotten, rank.replaced, rank.silent) == (False, False, False, 0)
    ordered = lifecycle.create(RunRequest(name="mine", benchmark="digits"), InstallationLimits())
    assert [run.id for run in observe().runs] == [ordered.id]
    assert lifecycle.has_active()
    finish(joined)
    assert observe().idle == 0


def test_a_pod_ships_only_for_its_rank(api: TestClient, database: Database) -> None:
    mine, other = come(0), come(0, key="other")

    come(1)
    headers = as_pod(mine.pod, JOB["uid"])
    for job, rank, status in ((mine, 0, 200), (mine, 1, 403), (other, 0, 403)):
        assert ship(api, job.run_id, b"text", "stdout", rank, headers).status_code == status
