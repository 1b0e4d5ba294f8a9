"""CPU contention of a rank, from counts of the kernel and from real processes."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlbench.contract.names import DISTURBED_SHARE, ENV_HOME
from mlbench.local.home import Home
from mlbench_worker.agent import cpu_contention
from mlbench_worker.agent.cpu_contention import Watch, add, collect, measure
from mlbench_worker.agent.kernel import (
    Cores,
    Kernel,
    KernelProcess,
    KernelThread,
    Snapshot,
    parse_process,
    process_table,
)
from tests.conftest import wait_for
from tests.support.known import known

_AGENT = """
import os, sys, time
from pathlib import Path

from mlbench.contract.assignment import Assignment
from mlbench_worker.agent.attempt import Attempt

folder, core, *command = sys.argv[1:]
attempt = Attempt.create(
    Path(folder), Assignment(7, 1, 0, 1, tuple(command), "x", 1, (int(core),))
)
attempt.start(dict(os.environ), lambda: None)
while attempt.measured is None:
    time.sleep(0.05)
attempt.stop()
attempt.ended.wait()
print(attempt.file("metrics").read_text())
"""
_SPIN = "while :; do :; done"


def snapshot(at: float, running: float = 0.0, waiting: float = 0.0, busy: float = 0.0) -> Snapshot:
    """Return a snapshot of a rank with one thread. ``busy`` is the busy time of its cores."""
    return Snapshot(
        at=at,
        threads={(9, 9): KernelThread(running, waiting, round(waiting))},
        own_seconds=running,
        sibling_seconds=0.0,
        stack_seconds=0.0,
        others={},
        cores=Cores(busy, 0.0),
        major_faults=0,
        throttled_seconds=None,
        node_pressure={"cpu": waiting},
        pod_pressure={},
        hertz=None,
        gpu_limits=frozenset(),
    )


def process(pid: int, name: str, seconds: float, core: int = 0, began: int = 1) -> KernelProcess:
    return KernelProcess(pid, 1, pid, name, began, seconds, 0.0, 0, core)


_BEGIN = snapshot(100.0)


@pytest.mark.parametrize(
    ("end", "cores", "waiting", "own"),
    [
        # It ran for six of ten seconds, and waited for four, in which other programs had its core.
        (snapshot(110.0, running=6, waiting=4, busy=10), {0}, 4.0, 0.0),
        # It slept most of the time. A sleeping rank does not wait.
        (snapshot(110.0, running=0.1, waiting=0.2, busy=10), {0}, 0.2, 0.0),
        # Four threads had a core to themselves, so they waited only for each other.
        (snapshot(110.0, running=10, waiting=30, busy=10), {0}, 0.0, 7.5),
        # The same four threads, with another program that had a fifth of the core.
        (snapshot(110.0, running=8, waiting=32, busy=10), {0}, 2.0, 6.0),
        # Two threads on two cores. Each thread waited for a tenth of the time.
        (snapshot(110.0, running=18, waiting=2, busy=20), {0, 1}, 1.0, 0.0),
    ],
)
def test_waiting_is_attributed_to_others_or_own_threads(
    end: Snapshot, cores: set[int], waiting: float, own: float
) -> None:
    found = measure(_BEGIN, end, cores)
    assert (found.waiting_seconds, found.self_contention_seconds) == pytest.approx((waiting, own))


def test_waiting_of_several_processes_is_their_mean() -> None:
    # Two processes that each ran for one second of ten and waited for two, and an idle launcher.
    threads = {(pid, pid): KernelThread(1.0, 2.0, 0) for pid in (1, 2)}
    threads[3, 3] = KernelThread(0.0, 0.0, 0)
    end = replace(snapshot(110.0, running=2, busy=20), threads=threads)
    assert measure(_BEGIN, end, {0, 1}).waiting_seconds == pytest.approx(2.0)


def test_ready_threads_are_those_of_the_busiest_process() -> None:
    # Four threads on one core, and a data loader.
    threads = {(1, thread): KernelThread(2.0, 7.0, 0) for thread in range(1, 5)}
    threads[2, 2] = KernelThread(2.0, 8.0, 0)
    found = measure(_BEGIN, replace(snapshot(110.0, running=10, busy=10), threads=threads), {0})
    assert found.ready_thread_seconds == 36.0
    assert add(found, found).ready_thread_seconds == 72.0


def test_throttling_by_the_own_limit_is_self_contention() -> None:
    begin = replace(_BEGIN, throttled_seconds=1.0)
    end = replace(snapshot(110.0, running=5, waiting=5, busy=40), throttled_seconds=5.0)
    found = measure(begin, end, {0})
    assert (found.waiting_seconds, found.self_contention_seconds) == (1.0, 4.0)
    assert (found.throttled_seconds, found.involuntary_switches) == (4.0, 5)


def test_other_programs_are_listed_by_their_use_of_its_cores() -> None:
    old = {1: process(1, "stress", 50.0), 2: process(2, "idle", 3.0), 3: process(3, "far", 1.0)}
    new = {1: process(1, "stress", 57.0), 2: process(2, "idle", 3.0), 3: process(3, "far", 9.0, 1)}
    new |= {4: process(4, "stress", 2.0), 5: process(5, "reused", 1.0, began=7)}
    begin = replace(_BEGIN, others=old | {5: process(5, "before", 9.0)})
    end = replace(snapshot(110.0, running=1, busy=12), others=new, sibling_seconds=2.0)
    found = measure(begin, end, {0})
    assert found.top == {"stress": 9.0, "reused": 1.0}
    # The rank and its siblings are not counted as other programs.
    assert found.others_core_seconds == 9.0


def test_the_stack_is_distinguished_from_other_programs() -> None:
    # Other processes had a fifth of the core, and three quarters of that were MLBench's.
    end = replace(snapshot(110.0, running=8, waiting=32, busy=10), stack_seconds=1.5)
    found = measure(_BEGIN, end, {0})
    waiting = (
        found.waiting_seconds,
        known(found.stack_waiting_seconds),
        found.self_contention_seconds,
    )
    assert waiting == pytest.approx((0.5, 1.5, 6.0))
    assert found.others_core_seconds == pytest.approx(0.5)
    assert found.contention_share == pytest.approx(0.2)
    series = {family.name: family for family in collect(found, {"run_id": "7", "rank": "0"})}
    causes = [
        one.labels["cause"] for one in series["mlbench_worker_cpu_contention_seconds"].samples
    ]
    assert causes == ["others", "mlbench", "own"]


def test_unknown_values_are_none_and_have_no_series() -> None:
    begin = replace(_BEGIN, cores=None, node_pressure={})
    whole = measure(_BEGIN, snapshot(101.0, waiting=1.0, busy=1.0), {0})
    unknown = measure(begin, snapshot(101.0, waiting=1.0), {0})
    total = add(whole, unknown)
    assert (total.seconds, total.waiting_seconds) == (2.0, 2.0)
    assert (total.others_core_seconds, total.stolen_seconds, total.core_hertz) == (None, None, None)
    series = {family.name: family for family in collect(total, {"run_id": "7", "rank": "0"})}
    assert "mlbench_worker_stolen_seconds" not in series
    [others, own] = series["mlbench_worker_cpu_contention_seconds"].samples
    assert others.labels == {"run_id": "7", "rank": "0", "cause": "others"}
    assert (others.value, own.value) == (2.0, 0.0)


def test_any_process_name_can_be_parsed() -> None:
    numbers = "S 4 5 6 0 -1 0 0 0 7 1 250 50 20 30 20 0 1 0 888"
    line = f"12 (a) R (b/c) {numbers} {'0 ' * 16}3 0".encode()
    assert parse_process(line) == KernelProcess(12, 4, 6, "a) R (b", 888, 3.0, 0.5, 8, 3)


def test_training_begins_with_the_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_contention, "_MIN_SECONDS", 0.01)
    monkeypatch.setattr(cpu_contention, "_PAUSE_BY_COST", 0)
    before: list[float] = []

    def has_recorded() -> bool:
        before.append(known(watch.total).seconds)
        return len(before) > 1

    watch = Watch(lambda: Kernel("", os.sched_getaffinity(0)), has_recorded, name_others=False)
    watch.start()
    wait_for(lambda: before[1:] and watch.total and watch.total.seconds > before[1])
    training = known(watch.end())
    assert training.seconds == pytest.approx(known(watch.total).seconds - before[1])
    assert training.top == {}


def interference_of_a_spinning_rank(folder: Path, core: str, **environ: str) -> dict[str, Any]:
    """Run a rank that keeps a core busy, and return its report on the core's other programs."""
    command = [sys.executable, "-c", _AGENT, str(folder), core, "sh", "-c", _SPIN]
    text = subprocess.check_output(command, env=os.environ | environ)
    return dict(json.loads(text)["interference"])


def test_a_hog_on_its_core_disturbs_a_rank_and_is_reported(tmp_path: Path) -> None:
    core = str(max(os.sched_getaffinity(0)))
    hog = tmp_path / "hog"
    hog.symlink_to("/bin/sh")
    with subprocess.Popen(["taskset", "-c", core, hog, "-c", _SPIN]) as disturbing:
        report = interference_of_a_spinning_rank(tmp_path, core)
        disturbing.kill()
    assert report["waiting_seconds"] > DISTURBED_SHARE * report["seconds"]
    assert "hog" in report["top"]


def test_a_service_of_the_stack_is_not_counted_as_another_program(tmp_path: Path) -> None:
    core, home = str(max(os.sched_getaffinity(0))), Home(tmp_path / "home")
    home.make()
    program = tmp_path / "service"
    program.symlink_to("/bin/sh")
    # Like the supervisor, start the service in a new session.
    service = f"setsid {program} -c '{_SPIN}' & wait"
    with subprocess.Popen(["taskset", "-c", core, "sh", "-c", service]) as supervisor:
        home.supervisor_lock.write_text(str(supervisor.pid))
        wait_for(lambda: children(supervisor.pid), what="the service has started")
        try:
            environ = {ENV_HOME: str(home.root)}
            report = interference_of_a_spinning_rank(tmp_path, core, **environ)
        finally:
            for pid in children(supervisor.pid):
                os.kill(pid, signal.SIGKILL)
    # The bound is low because other programs may have had the core most of the time.
    assert report["stack_waiting_seconds"] > 0.01 * report["seconds"]
    assert "service" not in report["top"]


def children(parent: int) -> list[int]:
    """Return the ids of a process's children."""
    return [one.pid for one in process_table().values() if one.parent == parent]
