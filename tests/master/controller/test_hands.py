"""The controller's hands: each action does what it says, also twice, also half done before."""

import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import pytest

from master.controller.actions import Assign, Count, End, Scale, StopRanks, Wait, WriteOff
from master.controller.decisions import decide
from master.controller.hands import Hands
from master.controller.settling import Settler
from master.controller.verification import Verifier
from master.controller.world import Attention, Habits, observe, store_pods
from master.models import Hearing, KeptSample, Rank, Run, run_owner
from master.pools.base import Placement, PodStatus, Shape
from master.reading.promql import PrometheusClient, PrometheusError
from master.recording import streams
from master.recording.delivery import Delivery
from master.recording.samples import Sample
from master.workers import Report, poll
from tests.conftest import free_port
from tests.master.making import key, line, make_ranks, make_run, post, record

pytestmark = pytest.mark.both_databases


@dataclass
class Machines:
    """A pool that gives everyone the core of their rank."""

    scaled: list[tuple[int, Shape, AbstractSet[str]]] = field(default_factory=list)

    gone: bool = False

    def pods(self) -> list[PodStatus]:
        return [_pod(f"w-{i}") for i in range(2)]

    def scale(self, workers: int, shape: Shape, busy: AbstractSet[str]) -> None:
        self.scaled.append((workers, shape, busy))

    def place(self, workers: Sequence[str], num_cpus: float | None) -> Placement | None:
        if self.gone:
            return None
        cores = tuple((i,) for i in range(len(workers)))
        return Placement("10.0.0.1", 29500, cores, tuple(map(_pod, workers)))

    def explain(self) -> str:
        return ""


def _pod(name: str) -> PodStatus:
    number = int(name[-1])
    made = PodStatus(name, number, "Running", "10.0.0.1", "n", {})
    return replace(made, uid=f"uid-{number}", image=f"worker@sha256:{number}")


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.fixture
def hands(machines: Machines, prometheus: PrometheusClient, delivery: Delivery) -> Hands:
    return Hands(machines, Settler(Verifier(prometheus, delivery), look_seconds=0.0))


def reload(run: Run) -> Run:
    found: Run = Run.get_by_id(run.id)
    return found


def ranks(run: Run) -> list[Rank]:
    return list(Rank.select().where(Rank.run == run).order_by(Rank.attempt, Rank.rank))


def test_a_run_says_what_it_waits_for_until_it_begins(hands: Hands, machines: Machines) -> None:
    run = make_run(state="INITIALIZED", attempt=0)
    hands.perform(Wait(run.id, "no room"))
    assert reload(run).waiting == "no room"
    machines.gone = True
    hands.perform(Assign(run.id, 1, ("w-0", "w-1")))
    assert (reload(run).state, reload(run).attempt, ranks(run)) == ("INITIALIZED", 0, [])
    machines.gone = False
    hands.perform(Assign(run.id, 1, ("w-0", "w-1")))
    assert (reload(run).state, reload(run).waiting) == ("STARTED", None)
    assert [(rank.pod_uid, rank.image) for rank in ranks(run)] == [
        ("uid-0", "worker@sha256:0"),
        ("uid-1", "worker@sha256:1"),
    ]


def test_a_run_that_ends_waits_for_nothing(hands: Hands) -> None:
    run = make_run(state="INITIALIZED", attempt=0, waiting="no room")
    hands.perform(End(run.id, "FAILED", "no room"))
    assert (reload(run).reason, reload(run).waiting) == ("no room", None)


def test_scale(hands: Hands, machines: Machines) -> None:
    hands.perform(Scale(3, Shape(0.5), frozenset({"uid-0"})))
    assert machines.scaled == [(3, Shape(0.5), {"uid-0"})]


def test_assign_begins_an_attempt_once(hands: Hands) -> None:
    run = make_run(state="INITIALIZED", attempt=0, args={"steps": "5"})
    for workers in (("w-0", "w-1"), ("w-2", "w-3")):
        hands.perform(Assign(run.id, 1, workers))
    begun = reload(run)
    assert (begun.state, begun.attempt) == ("STARTED", 1)
    assert begun.started_at == pytest.approx(time.time(), abs=10)
    first, second = ranks(run)
    assert (first.worker, second.worker) == ("w-0", "w-1")
    assert second.assignment.pop("command")[-4:] == ["-m", "worker.tasks.steps", "--steps", "5"]
    assert second.assignment == {
        "run_id": run.id,
        "attempt": 1,
        "rank": 1,
        "world_size": 2,
        "master_addr": "10.0.0.1",
        "master_port": 29500,
        "keeps_checkpoints": False,
        "cpus": [1],
        "working_dir": None,
        "seed": None,
        "deadline_at": None,
    }


def test_what_else_an_order_says_is_passed_on(hands: Hands) -> None:
    run = make_run(
        state="INITIALIZED",
        attempt=0,
        benchmark="",
        command="python main.py",
        working_dir="/home/me",
        seed=7,
        deadline_seconds=60.0,
    )
    hands.perform(Assign(run.id, 1, ("w-0", "w-1")))
    told = ranks(run)[1].assignment
    assert (told["working_dir"], told["seed"]) == ("/home/me", 7)
    assert told["deadline_at"] == pytest.approx(time.time() + 60, abs=10)


def test_a_restart_keeps_the_start_and_counts_anew(hands: Hands) -> None:
    counted = {"recorded": 1, "in_prometheus": 1, "kept": 0}
    run = make_run(started_at=5.0, deadline_seconds=60.0, delivery=counted)
    make_ranks(run, exit_code=1)
    hands.perform(Assign(run.id, 2, ("w-1", "w-0")))
    begun = reload(run)
    assert (begun.attempt, begun.started_at, begun.delivery) == (2, 5.0, None)
    assert [(r.attempt, r.rank, r.worker) for r in ranks(run)][2:] == [
        (2, 0, "w-1"),
        (2, 1, "w-0"),
    ]
    assert ranks(run)[2].assignment["deadline_at"] == 65.0


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "STOPPED"])
def test_nothing_begins_after_the_end(hands: Hands, state: str) -> None:
    run = make_run(state=state, attempt=0)
    hands.perform(Assign(run.id, 1, ("w-0", "w-1")))
    assert reload(run).state == state
    assert ranks(run) == []


def test_stop_all_ranks_of_this_attempt_and_run(hands: Hands, run: Run) -> None:
    make_ranks(run)
    run.attempt = 2
    run.save()
    make_ranks(run)
    other = make_run()
    make_ranks(other)
    for _ in range(2):
        hands.perform(StopRanks(run.id))
        assert [rank.stop for rank in ranks(run)] == [False, False, True, True]
    assert reload(run).reason == ""
    hands.perform(StopRanks(run.id, "stopped at its deadline of 5 s"))
    assert reload(run).reason == "stopped at its deadline of 5 s"
    assert [rank.stop for rank in ranks(other)] == [False, False]


def test_write_off_is_for_good(hands: Hands, run: Run) -> None:
    make_ranks(run)
    record(run, b"half a li")
    for why, heard_at in (("silent", 5.0), ("gone", 6.0)):
        hands.perform(WriteOff(run.id, 1, 0, heard_at, why))
    lost, other = ranks(run)
    assert (lost.lost, lost.exited_at) == ("silent", 5.0)
    assert (other.lost, other.exited_at) == ("", None)
    assert streams.append(key(run), 9, b"ne\n") == 9, "what is held is all there will be"


def test_a_rank_that_exited_before_it_was_lost_keeps_its_time(hands: Hands, run: Run) -> None:
    make_ranks(run, exit_code=0, exited_at=3.0)
    hands.perform(WriteOff(run.id, 1, 0, 5.0, "silent"))
    assert ranks(run)[0].exited_at == 3.0


def test_count(hands: Hands, run: Run, delivery: Delivery) -> None:
    record(run, line(time.time(), a=1, b="text"))
    delivery.deliver_waiting()
    # Posted just now, and not yet delivered.
    post(run_owner(run.id), [Sample("c", "", time.time_ns() // 1000, 1.0)])
    for _ in range(2):
        hands.perform(Count(run.id))
        hands.settler.turn()
        assert reload(run).delivery == {"recorded": 3, "in_prometheus": 2, "kept": 1}


def test_without_prometheus_nothing_is_counted(
    machines: Machines, run: Run, delivery: Delivery
) -> None:
    record(run, line(time.time(), a=1))
    delivery.deliver_waiting()
    absent = PrometheusClient(f"http://127.0.0.1:{free_port()}")
    settler = Settler(Verifier(absent, delivery))
    Hands(machines, settler).perform(Count(run.id))
    with pytest.raises(PrometheusError):
        settler.turn()
    assert reload(run).delivery is None
    absent.close()


def test_the_first_end_counts(hands: Hands, run: Run) -> None:
    hands.perform(End(run.id, "FAILED", "because"))
    ended = reload(run)
    assert (ended.state, ended.reason) == ("FAILED", "because")
    assert ended.finished_at == pytest.approx(time.time(), abs=10)
    hands.perform(End(run.id, "FINISHED"))
    assert (reload(run).state, reload(run).finished_at) == ("FAILED", ended.finished_at)


def test_the_reason_ends_with_what_the_rank_said_last(hands: Hands, run: Run) -> None:
    said = "".join(f"line {i}\n" for i in range(20))
    streams.append(key(run, 1, "stderr"), 0, said.encode())
    hands.perform(End(run.id, "FAILED", "rank 1 failed", failed_rank=1))
    lines = reload(run).reason.splitlines()
    assert lines == ["rank 1 failed", *(f"line {i}" for i in range(10, 20))]


def test_a_reason_can_hold_whatever_a_rank_said(hands: Hands, run: Run) -> None:
    streams.append(key(run, 1, "stderr"), 0, b"\x00 \xff \xc3\xbc\n")
    hands.perform(End(run.id, "FAILED", "rank 1 failed", failed_rank=1))
    assert reload(run).reason == "rank 1 failed\n\ufffd \ufffd \u00fc"


# --- All of it together: world, decisions and hands, with agents that only poll. ---


class Agent:
    """An agent that does what it is told, and whose process ends when the test says so."""

    def __init__(self, pod: str) -> None:
        self.pod = pod
        self.uid = pod.replace("w", "uid")
        self.said: dict[str, object] = {"state": "idle", "ip": "10.0.0.1", "pod_uid": self.uid}

    def poll(self) -> None:
        reply = poll(self.pod, Report.model_validate(self.said))
        if reply.assignment is not None:
            about = {k: reply.assignment[k] for k in ("run_id", "attempt", "rank")}
            self.said = {"state": "running", "ip": "10.0.0.1", "pod_uid": self.uid, **about}
        elif reply.do == "stop" and self.said["state"] == "running":
            self.exit(-15)
        elif reply.do == "stop":
            self.said = {"state": "idle", "ip": "10.0.0.1", "pod_uid": self.uid}

    def exit(self, code: int) -> None:
        ended = {"exit_code": code, "exited_at": time.time(), "sizes": {}}
        self.said = self.said | {"state": "exited"} | ended


@dataclass
class Loop:
    """The controller's loop, without its sleep."""

    hands: Hands
    run: Run
    agents: list[Agent] = field(default_factory=lambda: [Agent("w-0"), Agent("w-1")])
    seconds: float = 0.0
    spool_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        self.attention = Attention(lambda: self.seconds)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            pods = self.hands.pool.pods() or []
            store_pods(pods)
            for agent in self.agents:
                agent.poll()
            habits = Habits(2, 120.0, 60.0, self.spool_bytes)
            for action in decide(observe(pods, habits, self.attention)):
                self.hands.perform(action)
            self.hands.settler.turn()

    @property
    def state(self) -> str:
        return str(reload(self.run).state)


@pytest.fixture
def loop(hands: Hands) -> Loop:
    return Loop(hands, make_run(state="INITIALIZED", attempt=0))


def test_a_run_that_goes_well(loop: Loop) -> None:
    loop.turn(3)
    assert loop.state == "STARTED"
    for agent in loop.agents:
        agent.exit(0)
        loop.turn(2)
    loop.turn(2)
    assert loop.state == "FINISHED"
    loop.turn(2)
    assert [agent.said["state"] for agent in loop.agents] == ["idle", "idle"]


def test_a_rank_that_fails_and_a_restart_that_does_not(loop: Loop) -> None:
    Run.update(max_restarts=1).execute()
    loop.turn(3)
    loop.agents[1].exit(1)
    loop.turn(5)
    assert (loop.state, reload(loop.run).attempt) == ("STARTED", 2)
    loop.turn(2)
    for agent in loop.agents:
        assert (agent.said["state"], agent.said["attempt"]) == ("running", 2)
        agent.exit(0)
    loop.turn(4)
    assert loop.state == "FINISHED"


@pytest.mark.parametrize("turns", range(7))
def test_stop_at_any_moment(loop: Loop, turns: int) -> None:
    """Also just after a rank was given out, and before its agent has heard of it."""
    loop.turn(turns)
    Run.update(stop_requested=True).execute()
    loop.turn(6)
    assert loop.state == "STOPPED"
    loop.turn(2)
    assert [agent.said["state"] for agent in loop.agents] == ["idle", "idle"]


def test_a_run_that_heeds_no_deadline_is_finished_and_the_next_one_begins(loop: Loop) -> None:
    Run.update(deadline_seconds=5.0).execute()
    following = make_run(state="INITIALIZED", attempt=0)
    loop.turn(3)
    assert loop.state == "STARTED"
    loop.seconds += 5
    loop.turn(2)
    assert ranks(loop.run)[0].exit_code is None, "it may evaluate yet"
    for _ in range(4):
        loop.seconds += 9
        loop.turn()
    loop.turn(6)
    ended = reload(loop.run)
    assert (ended.state, ended.reason) == ("FINISHED", "stopped at its deadline of 5 s")
    assert [rank.exit_code for rank in ranks(loop.run)] == [-15, -15]
    loop.turn(4)
    assert reload(following).state == "STARTED"


class Stubborn(Agent):
    """An agent that is heard of, and does not do what it is told."""

    def poll(self) -> None:
        assignment = poll(self.pod, Report.model_validate(self.said)).assignment
        if assignment is not None:
            about = {k: assignment[k] for k in ("run_id", "attempt", "rank")}
            self.said = self.said | {"state": "running", **about}


def pass_time(loop: Loop, seconds: int) -> None:
    """Have the master hear its agents for so long."""
    for _ in range(0, seconds, 5):
        loop.seconds += 5
        Hearing.update(seconds=Hearing.seconds + 5).execute()
        loop.turn()


def test_an_agent_that_never_ends_its_rank_does_not_keep_the_run_from_ending(loop: Loop) -> None:
    Hearing.create(id=1, seconds=1, since=0)
    loop.agents[1] = Stubborn("w-1")
    loop.turn(3)
    Run.update(stop_requested=True).execute()
    pass_time(loop, 60)
    assert loop.state == "STARTED"
    pass_time(loop, 20)
    loop.turn(3)
    assert loop.state == "STOPPED"
    assert ranks(loop.run)[1].lost == "w-1 did not end it within 60 s of being told to"


def test_nor_does_one_that_tells_of_bytes_which_never_come(loop: Loop) -> None:
    Hearing.create(id=1, seconds=1, since=0)
    loop.agents[1] = Stubborn("w-1")
    loop.turn(3)
    ended = {"state": "exited", "exit_code": 0, "exited_at": time.time()}
    loop.agents[1].said |= ended | {"sizes": {"metrics": 2**60}}
    loop.agents[0].exit(0)
    pass_time(loop, 60)
    assert loop.state == "STARTED"
    pass_time(loop, 20)
    assert loop.state == "FAILED"
    reason = "rank 1 is lost: the rest of what it wrote did not come from w-1 in 60 s"
    assert reload(loop.run).reason == reason


def test_while_nothing_can_be_taken_none_is_given_up(loop: Loop) -> None:
    Hearing.create(id=1, seconds=1, since=0)
    loop.agents[1] = Stubborn("w-1")
    loop.turn(3)
    loop.agents[1].said |= {"state": "exited", "exit_code": 0, "exited_at": time.time()}
    loop.agents[1].said |= {"sizes": {"metrics": 9}}
    loop.spool_bytes = -1
    pass_time(loop, 120)
    assert loop.state == "STARTED"


def test_missing_samples_fail_the_run(loop: Loop) -> None:
    loop.turn(3)
    KeptSample.create(
        owner=run_owner(loop.run.id), metric="a", rank="", time_us=0, value="from nowhere"
    )
    for agent in loop.agents:
        agent.exit(0)
    loop.turn(4)
    assert loop.state == "FAILED"
    reason = "samples are missing: 0 recorded, 0 in Prometheus, 1 kept"
    assert reload(loop.run).reason == reason
