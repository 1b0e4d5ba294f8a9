"""The executor: every action is idempotent, also after an interruption."""

import socket
import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from peewee import Database

from mlbench.contract.assignment import Assignment
from mlbench.contract.conversion import convert
from mlbench.contract.runspec import WorkerSpec
from mlbench_master.controller.actions import Ask, Assign, End, MarkLost, Scale, StopRanks, Wait
from mlbench_master.controller.decisions import decide
from mlbench_master.controller.executor import Executor, command
from mlbench_master.controller.observer import Observer, store_pods
from mlbench_master.database.connection import store
from mlbench_master.database.models import Diagnosis, MasterUptime, Rank, Run
from mlbench_master.pools.pool import Placement, PodStatus
from mlbench_master.recording import streams
from mlbench_master.runs import lifecycle, presenters
from mlbench_master.runs.worker_reports import Report, poll
from tests.master.controller.worlds import POLICY
from tests.support.rows import key, make_ranks, make_run, record, reload


@dataclass
class FakePool:
    """A pool of four pods, each with dedicated cores."""

    scaled: list[tuple[int, WorkerSpec, AbstractSet[str]]] = field(default_factory=list)
    gone: bool = False
    port: int = 0

    def pods(self) -> list[PodStatus]:
        return [self.pod(f"w-{i}") for i in range(4)]

    def cores(self) -> None:
        """Return None: pods have dedicated cores."""

    def scale(self, workers: int, shape: WorkerSpec, busy: AbstractSet[str]) -> None:
        self.scaled.append((workers, shape, busy))

    def place(self, pods: tuple[PodStatus, ...], shape: WorkerSpec) -> Placement:
        return Placement("10.0.0.1", 29500, pods)

    def explain(self) -> str:
        return ""

    def pod(self, name: str) -> PodStatus:
        number, ip = int(name[-1]), "127.0.0.1" if self.port else "10.0.0.1"
        made = PodStatus(name, number, "Running", ip, "n", {}, self.port, usable=not self.gone)
        return replace(made, uid=f"uid-{number}", image=f"worker@sha256:{number}")


@pytest.fixture
def pool() -> FakePool:
    return FakePool()


@pytest.fixture
def executor(pool: FakePool) -> Executor:
    return Executor(pool)


@pytest.fixture
def ordered(database: Database) -> Run:
    return make_run(state="INITIALIZED", attempt=0, args={"steps": "5"})


BEGIN = ("w-0", "w-1")
CORES = ((0,), (1,))


def ranks(run: Run) -> list[Rank]:
    return list(Rank.select().where(Rank.run == run).order_by(Rank.attempt, Rank.rank))


def test_a_run_shows_why_it_waits(executor: Executor, pool: FakePool, ordered: Run) -> None:
    executor.perform(Scale(3, WorkerSpec(num_cpus=0.5), frozenset({"uid-0"})))
    assert pool.scaled == [(3, WorkerSpec(num_cpus=0.5), {"uid-0"})]
    executor.perform(Wait(ordered.id, "no room"))
    assert presenters.describe(reload(ordered)).waiting == "no room"
    pool.gone = True
    executor.perform(Assign(ordered.id, 1, BEGIN, CORES))
    assert (reload(ordered).state, reload(ordered).attempt) == ("INITIALIZED", 0)
    pool.gone = False
    executor.perform(Assign(ordered.id, 1, ("w-0", "w-7"), CORES))
    assert ranks(ordered) == []
    executor.perform(Assign(ordered.id, 1, BEGIN, CORES))
    assert (reload(ordered).state, reload(ordered).waiting) == ("STARTED", None)
    pods = [(rank.pod_uid, rank.image) for rank in ranks(ordered)]
    assert pods == [("uid-0", "worker@sha256:0"), ("uid-1", "worker@sha256:1")]


def test_workers_wake_to_start_and_stop(executor: Executor, pool: FakePool, ordered: Run) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agents:
        agents.bind(("127.0.0.1", 0))
        agents.setblocking(False)
        pool.port = agents.getsockname()[1]
        for action in (Assign(ordered.id, 1, BEGIN, CORES), StopRanks(ordered.id)):
            executor.perform(action)
            assert [agents.recv(1) for _ in BEGIN] == [b"", b""]
            with pytest.raises(BlockingIOError):
                agents.recv(1)


@pytest.mark.both_databases
def test_an_attempt_starts_once(executor: Executor, ordered: Run) -> None:
    Run.update(seed=7, deadline_seconds=60.0, working_dir="/home/me").execute()
    for workers in (BEGIN, ("w-2", "w-3")):
        executor.perform(Assign(ordered.id, 1, workers, CORES))
    begun = reload(ordered)
    assert (begun.state, begun.attempt) == ("STARTED", 1)
    assert begun.started_at is not None
    assert begun.started_at == pytest.approx(time.time(), abs=10)
    first, second = ranks(ordered)
    assert (first.worker, second.worker) == BEGIN
    assert Assignment.from_fields(second.assignment) == Assignment(
        run_id=ordered.id,
        attempt=1,
        rank=1,
        world_size=2,
        master_addr="10.0.0.1",
        master_port=29500,
        command=("python3", "-P", "-m", "mlbench_worker.tasks.steps", "--steps", "5"),
        keeps_checkpoints=False,
        cpus=(1,),
        working_dir="/home/me",
        seed=7,
        deadline_at=begun.started_at + 60,
    )


def test_a_restart_keeps_the_start_and_drops_counts(executor: Executor, database: Database) -> None:
    counted = {"recorded": 1, "in_prometheus": 1, "record_only": 0}
    run = make_run(started_at=5.0, deadline_seconds=60.0, delivery=counted, max_restarts=1)
    make_ranks(run, exit_code=1)
    executor.perform(Assign(run.id, 2, ("w-1", "w-0")))
    begun = reload(run)
    assert (begun.attempt, begun.started_at, begun.delivery) == (2, 5.0, None)
    _, _, *later = ranks(run)
    assert [(r.attempt, r.rank, r.worker) for r in later] == [(2, 0, "w-1"), (2, 1, "w-0")]
    assignment = Assignment.from_fields(later[0].assignment)
    assert (assignment.deadline_at, assignment.keeps_checkpoints) == (65.0, True)


MPI = {"command": "mpirun train", "run_all_nodes": False}
TEMPLATE = "train --run_id {run_id} 'a b' --rank={rank} {hosts} {backend} {x} {}"


@pytest.mark.parametrize(
    ("order", "rank", "words"),
    [
        (
            {"benchmark": "steps", "args": {"steps": "20", "rate": "10"}},
            1,
            ["python", "-P", "-m", "mlbench_worker.tasks.steps", "--steps", "20", "--rate", "10"],
        ),
        (
            {"id": 8, "backend": "nccl", "command": TEMPLATE},
            1,
            ["train", "--run_id", "8", "a b", "--rank=1", "10.0.0.1,10.0.0.2", "nccl", "{x}", "{}"],
        ),
        ({"command": "t", "gpu_enabled": True, "light_target": True}, 1, ["t", "--gpu", "--light"]),
        *(
            ({"command": "t {seed}", "seed": 7}, 1, ["t", "7"]),
            ({"command": "{seed}"}, 1, ["{seed}"]),
        ),
        *((MPI, 0, ["mpirun", "train"]), (MPI, 1, ["true"])),
    ],
)
def test_commands(order: dict[str, Any], rank: int, words: list[str]) -> None:
    run = Run(**{"benchmark": "", **order})
    assert list(command(run, rank, ["10.0.0.1", "10.0.0.2"], "python")) == words


def test_only_active_ranks_are_diagnosed(executor: Executor, run: Run) -> None:
    make_ranks(run)
    for _ in range(2):
        executor.perform(Ask(run.id, "failed"))
    Rank.update(exit_code=1).execute()
    executor.perform(Ask(run.id, "stopped"))
    assert [diagnosis.reason for diagnosis in Diagnosis.select()] == ["failed"]


@pytest.mark.both_databases
def test_a_stop_affects_only_the_current_attempt_of_the_run(executor: Executor, run: Run) -> None:
    make_ranks(run)
    store(run, attempt=2)
    make_ranks(run)
    other = make_run()
    make_ranks(other)
    for _ in range(2):
        executor.perform(StopRanks(run.id))
        assert [rank.stop for rank in ranks(run)] == [False, False, True, True]
    assert reload(run).reason == ""
    executor.perform(StopRanks(run.id, "stopped at its deadline of 5 s"))
    assert reload(run).reason == "stopped at its deadline of 5 s"
    assert [rank.stop for rank in ranks(other)] == [False, False]


@pytest.mark.both_databases
def test_a_lost_rank_stays_lost(executor: Executor, run: Run) -> None:
    make_ranks(run)
    record(run, b"half a li")
    for why, seen_at in (("silent", 5.0), ("gone", 6.0)):
        executor.perform(MarkLost(run.id, 1, 0, seen_at, why))
    lost, other = ranks(run)
    assert (lost.lost, lost.exited_at) == ("silent", 5.0)
    assert (other.lost, other.exited_at) == ("", None)
    assert streams.append(key(run), 9, b"ne\n") == 9, "the stream is closed at its size"
    Rank.update(exit_code=0, exited_at=3.0).where(Rank.rank == other.rank).execute()
    executor.perform(MarkLost(run.id, 1, 1, 5.0, "silent"))
    assert ranks(run)[1].exited_at == 3.0


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_a_changed_system_clock_does_not_affect_durations(
    executor: Executor, run: Run, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    right = time.time
    Run.update(state="INITIALIZED", attempt=0).execute()
    executor.perform(Assign(run.id, 1, BEGIN, CORES))
    monkeypatch.setattr("mlbench_master.runs.run_clock.time.time", lambda: right() + jump)
    executor.perform(Assign(run.id, 2, BEGIN))
    executor.perform(End(run.id, "FINISHED"))
    ended, again = reload(run), ranks(run)[-1]
    times = [ended.started_at or 0, again.assigned_at, ended.finished_at or 0]
    assert times == sorted(times)
    assert times[-1] - times[0] < 10
    assert [again.clock_ahead, ended.clock_set_seconds] == pytest.approx([jump] * 2, abs=0.5)


@pytest.mark.both_databases
def test_the_first_end_counts(executor: Executor, run: Run) -> None:
    Run.update(waiting="no room").execute()
    executor.perform(End(run.id, "FAILED", "because"))
    ended = reload(run)
    assert (ended.state, ended.reason, ended.waiting) == ("FAILED", "because", None)
    assert ended.finished_at == pytest.approx(time.time(), abs=10)
    executor.perform(End(run.id, "FINISHED"))
    executor.perform(Assign(run.id, 2, BEGIN))
    assert (reload(run).state, reload(run).finished_at) == ("FAILED", ended.finished_at)
    assert ranks(run) == []


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("of_run", "exits", "ended", "shipped"),
    [
        ({"launcher": "shell"}, [(0, 605.0), (1, 604.0)], 605.0, True),
        ({"launcher": "shell", "waiting": "waiting for a restart"}, [(1, 605.0)], 605.0, True),
        ({"launcher": "shell"}, [(0, 995.0)], 995.0, False),
        ({}, [(0, 605.0), (0, 606.5)], 606.5, False),
        ({"stop_requested": True}, [(-15, 606.0)], 606.0, False),
        # The target was reached after the exit: the clocks of two workers differ.
        ({"target_reached_at": 607.0}, [(0, 606.0)], 607.0, False),
        # A lost rank, and a worker whose clock puts the exit before the start.
        ({}, [(0, 605.0), (None, 610.0)], 1000.0, False),
        ({}, [(0, 600.0)], 1000.0, False),
        # The run was waiting for workers to restart.
        ({"waiting": "1 of 2 workers is there"}, [(1, 605.0)], 1000.0, False),
        ({}, [], 1000.0, False),
    ],
)
def test_a_run_ends_with_the_last_exit_of_its_ranks(
    executor: Executor,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    of_run: dict[str, Any],
    exits: list[tuple[int | None, float]],
    ended: float,
    shipped: bool,
) -> None:
    store(run, started_at=600.0, steady_clock=None, **of_run)
    made = make_ranks(run, [f"w-{i}" for i in range(len(exits))], assigned_at=600.0)
    for rank, (code, at) in zip(made, exits, strict=True):
        store(rank, exit_code=code, exited_at=at, lost="" if code is not None else "silent")
    make_ranks(run, ["w-9"], attempt=0, assigned_at=600.0, exit_code=1, exited_at=900.0)
    monkeypatch.setattr("mlbench_master.runs.run_clock.time.time", lambda: 1000.0)
    executor.perform(End(run.id, "FINISHED"))
    assert (reload(run).finished_at, reload(run).shipped_at) == (ended, 1000.0 if shipped else None)


def reason_after(executor: Executor, run: Run, stderr: bytes) -> str:
    """Return the reason of a run whose rank 1 failed after it had written this to stderr."""
    streams.append(key(run, 1, "stderr"), 0, stderr)
    executor.perform(End(run.id, "FAILED", "rank 1 failed", failed_rank=1))
    return reload(run).reason


@pytest.mark.both_databases
def test_the_reason_ends_with_the_last_stderr_lines(executor: Executor, run: Run) -> None:
    wrote = b"".join(b"line %d\n" % i for i in range(20)) + b"\x00 \xff \xc3\xbc\n"
    last = [*(f"line {i}" for i in range(11, 20)), "\ufffd \ufffd \u00fc"]
    assert reason_after(executor, run, wrote).splitlines() == ["rank 1 failed", *last]


@pytest.mark.parametrize(
    ("codes", "culprit"),
    [
        ((0, 1, None), "rank 0 on w-0 exited with code 0 first; then rank 1 failed"),
        ((0, 1, 3), "rank 2 on w-2 exited with code 3 first; then rank 1 failed"),
        # Two ranks exited with 0; the first one is unknown.
        ((0, 1, 0), "rank 1 failed"),
    ],
)
def test_the_reason_names_the_rank_that_closed_the_connection(
    executor: Executor, run: Run, codes: tuple[int | None, ...], culprit: str
) -> None:
    for rank, code in zip(make_ranks(run, ["w-0", "w-1", "w-2"]), codes, strict=True):
        store(rank, exit_code=code, exited_at=700.0)
    error = "RuntimeError: Connection closed by peer"
    assert reason_after(executor, run, f"{error}\n".encode()) == f"{culprit}\n{error}"


@pytest.mark.parametrize("rank", ["", "[rank1]: "])
def test_the_reason_does_not_cut_a_traceback_frame(executor: Executor, run: Run, rank: str) -> None:
    frames = [f'  File "{i}.py", line {i}, in f\n    f({i})\n    ^^^^\n' for i in range(9)]
    wrote = "".join(f"{rank}{line}\n" for line in "".join([*frames, "E: no"]).splitlines())
    first, begin, *_, last = reason_after(executor, run, wrote.encode()).splitlines()
    assert (first, last) == ("rank 1 failed", f"{rank}E: no")
    assert begin == f'{rank}  File "6.py", line 6, in f'


# --- Observer, decisions and executor together, with agents that only poll ---


class Agent:
    """An agent that carries out each reply to a poll at once."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        self.who = {"ip": "10.0.0.1", "pod_uid": pod.replace("w", "uid")}
        self.report: dict[str, object] = {"state": "idle", **self.who}

    def poll(self) -> None:
        reply = poll(self.pod, convert(Report, self.report))
        if reply.assignment is not None:
            about = {k: reply.assignment[k] for k in ("run_id", "attempt", "rank")}
            self.report = {"state": "running", **self.who, **about}
        elif reply.do == "stop" and self.report["state"] == "running":
            self.report |= {"state": "exited", "exit_code": -15, "exited_at": time.time()}
            self.report |= {"sizes": {}}
        elif reply.do == "stop":
            self.report = {"state": "idle", **self.who}


@pytest.mark.both_databases
@pytest.mark.parametrize("turns", range(7))
def test_a_run_can_be_deleted_at_any_moment(executor: Executor, ordered: Run, turns: int) -> None:
    """Includes the moment after an assignment, and a restarted controller."""
    MasterUptime.create(id=1, seconds=1, since=0)
    agents = [Agent("w-0"), Agent("w-1")]

    def turn(observer: Observer) -> None:
        pods = executor.pool.pods() or []
        store_pods(pods)
        for agent in agents:
            agent.poll()
        for action in decide(observer.observe(pods)):
            executor.perform(action)

    first = Observer(POLICY, 1 << 30)
    for _ in range(turns):
        turn(first)
    assert not lifecycle.delete(ordered)
    for _ in range(6):
        turn(Observer(POLICY, 1 << 30))
    assert not Run.select().exists()
    assert not Rank.select().exists()
    for _ in range(2):
        turn(first)
    assert [agent.report["state"] for agent in agents] == ["idle", "idle"]
    executor.perform(End(ordered.id, "STOPPED"))
