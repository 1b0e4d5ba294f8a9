"""Real processes: whose they are, and that a pod's totals hold when they end."""

import os
import subprocess
from pathlib import Path

import psutil
import pytest

from exporter import series
from exporter.proc import Owner, read_owners
from exporter.sample import Sample
from exporter.sources.processes import (
    MAX_READINGS,
    ProcessSource,
    ProcessUsage,
    measure,
    pod_usage,
)
from exporter.usage import Disk, Network, PodUsage

from .conftest import Agent, StartPod

MIB = 1 << 20

# A child that does something, says so, and waits until its input is closed.
PIPES = "stdin=subprocess.PIPE, stdout=subprocess.PIPE"
CHILD = "subprocess.Popen([sys.executable, '-c', {code!r}], " + PIPES + "{more})"
WAIT = "\nprint(flush=True)\nimport sys; sys.stdin.read()"
BURN = "import time\nwhile time.process_time() < 0.3: pass"
WRITE = "import os\nwith open({path!r}, 'wb') as f: f.write(bytes(4 << 20)); os.fsync(f)"

PROCESS = ProcessUsage(
    user_seconds=1.5,
    system_seconds=0.5,
    rss_bytes=100,
    anonymous_bytes=60,
    threads=4,
    disk=Disk(read_bytes=7, write_bytes=9),
)
ZOMBIE = ProcessUsage(
    user_seconds=3, system_seconds=1, rss_bytes=0, anonymous_bytes=0, threads=0, disk=Disk(1, 1)
)


def start_child(agent: Agent, code: str, more: str = "") -> None:
    """Start a child that runs ``code`` and then waits; return when it waits."""
    agent.do("child = " + CHILD.format(code=code + WAIT, more=more))
    agent.do("assert child.stdout.readline()")


def end_child(agent: Agent) -> None:
    """Let the child end, without waiting for it: it is a zombie when this returns."""
    agent.do("child.stdin.close(); os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)")


def read_one(home: Path) -> PodUsage:
    (usage,) = ProcessSource(home, "laptop").read_pods()
    return usage


def test_a_pod_is_the_sum_of_its_processes() -> None:
    network = Network(5, 6)

    assert pod_usage("worker-0", "laptop", [PROCESS, PROCESS, ZOMBIE], network) == PodUsage(
        namespace="local",
        pod="worker-0",
        container="worker",
        node="laptop",
        cpu_user_seconds=6,
        cpu_usage_seconds=8,
        memory_usage_bytes=200,
        memory_working_set_bytes=120,
        threads=8,
        processes=2,
        disk=Disk(read_bytes=15, write_bytes=19),
        network=network,
    )


def test_samples_are_labelled_and_leave_out_what_is_unknown(
    start_pod: StartPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_pod("worker-0")
    monkeypatch.setattr("exporter.sources.processes._measure_disk", lambda process: None)

    samples = list(ProcessSource(tmp_path, "laptop").read())

    figures = {sample.series: sample for sample in samples}
    assert len(figures) == len(samples)
    assert figures[series.PROCESSES] == Sample(
        series.PROCESSES, ("local", "worker-0", "worker", "laptop"), 1
    )
    assert series.FS_READS not in figures
    assert series.NETWORK_RECEIVE not in figures


def test_the_machine_is_read_without_any_pod(tmp_path: Path) -> None:
    memory, cores = ProcessSource(tmp_path, "laptop").read()

    page = os.sysconf("SC_PAGE_SIZE")
    assert memory == Sample(series.MACHINE_MEMORY, ("laptop",), os.sysconf("SC_PHYS_PAGES") * page)
    assert cores == Sample(series.MACHINE_CORES, ("laptop",), os.sysconf("SC_NPROCESSORS_ONLN"))


def test_io_is_unknown_where_one_process_hides_it() -> None:
    hidden = ProcessUsage(1, 1, 1, 1, 1, disk=None)

    assert pod_usage("worker-0", "laptop", [PROCESS, hidden], None).disk is None


def test_a_sum_of_hundredths_does_not_depend_on_what_is_added_to_what() -> None:
    def total(*seconds: float) -> float:
        parts = [ProcessUsage(part, 0, 0, 0, 1, None) for part in seconds]
        return pod_usage("worker-0", "laptop", parts, None).cpu_usage_seconds

    assert 0.1 + 0.2 > 0.3  # as floats: a counter that falls when a child's time moves
    assert total(0.1, 0.2) == total(0.3)


def test_processes_are_found_by_pod_and_home(start_pod: StartPod, tmp_path: Path) -> None:
    zero = start_pod("worker-0")
    start_pod("worker-1")
    start_pod("worker-0", home=tmp_path / "other")
    start_child(zero, "")

    found = {usage.pod: usage for usage in ProcessSource(tmp_path, "laptop").read_pods()}

    assert {pod: usage.processes for pod, usage in found.items()} == {"worker-0": 2, "worker-1": 1}
    usage = found["worker-0"]
    assert usage.threads == 2
    assert MIB < usage.memory_working_set_bytes < usage.memory_usage_bytes < 200 * MIB
    assert usage.network is None  # it shares ours


def test_nothing_is_found_where_nothing_runs(tmp_path: Path) -> None:
    assert ProcessSource(tmp_path, "laptop").read_pods() == []


def test_a_child_belongs_to_its_parents_pod_without_an_environment(
    start_pod: StartPod, tmp_path: Path
) -> None:
    start_child(start_pod("worker-0"), "", more=", env={}")

    assert read_one(tmp_path).processes == 2


def test_a_child_that_hides_its_environment_belongs_to_its_parents_pod(
    start_pod: StartPod, tmp_path: Path
) -> None:
    # PR_SET_DUMPABLE 0: only the privileged may read its environment and its I/O.
    start_child(start_pod("worker-0"), "import ctypes; ctypes.CDLL(None).prctl(4, 0)")

    assert read_one(tmp_path).processes == 2


def test_cpu_time_holds_when_a_child_ends(start_pod: StartPod, tmp_path: Path) -> None:
    agent = start_pod("worker-0")
    before = read_one(tmp_path)
    start_child(agent, BURN)
    running = read_one(tmp_path)
    end_child(agent)
    ended = read_one(tmp_path)
    agent.do("child.wait()")
    reaped = read_one(tmp_path)

    usages = [before, running, ended, reaped]
    assert [usage.processes for usage in usages] == [1, 2, 1, 1]
    assert ended.memory_usage_bytes < running.memory_usage_bytes
    totals = [usage.cpu_usage_seconds for usage in usages]
    assert totals == sorted(totals)
    users = [usage.cpu_user_seconds for usage in usages]
    assert users == sorted(users)
    used = reaped.cpu_usage_seconds - before.cpu_usage_seconds
    assert 0.25 < used < 0.55, "the child's 0.3 seconds, once"


def test_io_holds_when_a_child_ends(start_pod: StartPod, tmp_path: Path) -> None:
    agent = start_pod("worker-0")
    start_child(agent, WRITE.format(path=str(tmp_path / "file")))
    running = read_one(tmp_path).disk
    end_child(agent)
    ended = read_one(tmp_path).disk
    agent.do("child.wait()")
    reaped = read_one(tmp_path).disk

    assert running
    assert reaped
    if running.write_bytes == 0:
        pytest.skip("the temporary folder is not on a disk")
    ended = ended or running  # hidden by some kernels, and then left out
    assert 4 * MIB <= running.write_bytes <= ended.write_bytes <= reaped.write_bytes < 8 * MIB
    assert running.read_bytes <= ended.read_bytes <= reaped.read_bytes


def test_cpu_time_holds_when_the_agent_adopts_orphans_and_waits_for_them(
    start_pod: StartPod, tmp_path: Path
) -> None:
    agent = start_pod("worker-0")
    agent.do("ctypes.CDLL(None).prctl(36, 1)")  # PR_SET_CHILD_SUBREAPER
    grandchild = CHILD.format(code=BURN + WAIT, more="")
    starts_one = f"import subprocess, sys\nassert {grandchild}.stdout.readline()"
    start_child(agent, starts_one, more=", start_new_session=True")
    running = read_one(tmp_path)
    agent.do("os.killpg(child.pid, signal.SIGKILL); child.wait(); os.wait()")
    reaped = read_one(tmp_path)

    assert (running.processes, reaped.processes) == (3, 1)
    assert 0.25 < running.cpu_usage_seconds <= reaped.cpu_usage_seconds


def test_io_that_may_not_be_read_is_unknown_and_nothing_else(
    start_pod: StartPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(process: psutil.Process) -> None:
        raise psutil.AccessDenied(process.pid)

    start_pod("worker-0")
    monkeypatch.setattr(psutil.Process, "io_counters", denied)

    usage = read_one(tmp_path)

    assert usage.disk is None
    assert usage.processes == 1


@pytest.mark.parametrize("child_first", [False, True])
def test_a_child_that_is_reaped_while_its_pod_is_read_is_counted_once(
    child_first: bool, start_pod: StartPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = start_pod("worker-0")
    start_child(agent, BURN)
    running = read_one(tmp_path)
    measured: list[int] = []

    def in_order() -> dict[int, Owner]:
        return dict(sorted(read_owners().items(), reverse=child_first))

    def measure_then_reap(process: psutil.Process) -> ProcessUsage | None:
        usage = measure(process)
        measured.append(process.pid)
        if len(measured) == 1:
            agent.do("child.stdin.close(); child.wait()")
        return usage

    monkeypatch.setattr("exporter.sources.processes.read_owners", in_order)
    monkeypatch.setattr("exporter.sources.processes.measure", measure_then_reap)
    reaped = read_one(tmp_path)

    assert (measured[0] != agent.process.pid) == child_first
    assert reaped.processes == 1
    assert 0 <= reaped.cpu_usage_seconds - running.cpu_usage_seconds < 0.2


def test_processes_that_come_and_go_do_not_hold_up_a_scrape(
    start_pod: StartPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_pod("worker-0")
    asked: list[int] = []

    def is_running(process: psutil.Process) -> bool:
        asked.append(process.pid)
        return False

    monkeypatch.setattr(psutil.Process, "is_running", is_running)

    assert read_one(tmp_path).processes == 1
    assert len(asked) == MAX_READINGS


def test_a_network_namespace_of_its_own_is_counted(start_pod: StartPod, tmp_path: Path) -> None:
    unshare = ("unshare", "--map-root-user", "--net")
    try:
        subprocess.run([*unshare, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not make a network namespace")
    start_pod("worker-0", prefix=unshare)

    assert read_one(tmp_path).network == Network(0, 0)  # nothing but a loopback interface in it
