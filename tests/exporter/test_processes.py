"""Real processes: whose they are, and that a pod's totals hold when they end."""

import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from exporter.processes import (
    MAX_READINGS,
    Disk,
    Network,
    Owner,
    PodUsage,
    ProcessSource,
    ProcessUsage,
    adopt,
    measure,
    named_owner,
    parse_network,
    pod_usage,
    read_owners,
)

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
    with TemporaryDirectory() as on_disk:  # tmp_path may be in memory
        start_child(agent, WRITE.format(path=f"{on_disk}/file"))
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

    monkeypatch.setattr("exporter.processes.read_owners", in_order)
    monkeypatch.setattr("exporter.processes.measure", measure_then_reap)
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


HERE = Owner(Path("/here"), "worker-0")
THERE = Owner(Path("/there"), "worker-0")


@pytest.mark.parametrize(
    ("environment", "owner"),
    [
        (b"PATH=/bin\0MLBENCH_POD=worker-0\0MLBENCH_HOME=/here\0", HERE),
        (b"MLBENCH_HOME=/here\0MLBENCH_POD=worker-0\0", HERE),
        (b"MLBENCH_HOME=/here/\0MLBENCH_POD=worker-0", HERE),
        (b"MLBENCH_HOME=/here\0", None),
        (b"MLBENCH_POD=worker-0\0", None),
        (b"MLBENCH_HOME=/here\0MLBENCH_POD=\0", None),
        (b"MLBENCH_HOME=/here\0OLD_MLBENCH_POD=worker-0\0", None),
        (b"MLBENCH_HOME=/here\0NOTE=MLBENCH_POD=worker-0\0", None),
        (b"MLBENCH_HOME=/h\xff\0MLBENCH_POD=p\0", Owner(Path("/h\udcff"), "p")),
        (b"", None),
    ],
)
def test_an_owner_is_named_by_pod_and_home(environment: bytes, owner: Owner | None) -> None:
    assert named_owner(environment) == owner


def test_who_names_no_owner_belongs_to_the_nearest_ancestor_that_does() -> None:
    named = {10: HERE, 12: THERE}
    parents = {11: 10, 13: 12, 14: 13, 15: 1}

    assert adopt(named, parents) == {10: HERE, 11: HERE, 12: THERE, 13: THERE, 14: THERE}


def test_parents_that_were_read_while_they_changed_do_not_hold_up() -> None:
    assert adopt({1: HERE}, {2: 3, 3: 2}) == {1: HERE}


def test_network_is_the_sum_of_all_interfaces_but_the_loopback() -> None:
    table = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0
  eth0: 160544412    4581    0    0    0     0      0         0   305606    2404    0    0    0
  eth1:1000      20    0    0    0     0          0         0        50       0    0    0    0
"""

    assert parse_network(table) == Network(receive_bytes=160545412, transmit_bytes=305656)


USAGE = PodUsage(
    namespace="local",
    pod="local-mlbench-worker-0",
    container="worker",
    node="laptop",
    cpu_user_seconds=1.5,
    cpu_usage_seconds=2.25,
    memory_usage_bytes=4096,
    memory_working_set_bytes=1024,
    threads=7,
    processes=2,
    disk=Disk(read_bytes=10, write_bytes=20),
    network=Network(receive_bytes=30, transmit_bytes=40),
)


def values(usage: PodUsage) -> dict[str, float]:
    return {sample.series.name: sample.value for sample in usage.samples()}


def test_every_figure_is_a_sample() -> None:
    assert values(USAGE) == {
        "container_cpu_usage_seconds_total": 2.25,
        "container_cpu_user_seconds_total": 1.5,
        "container_memory_usage_bytes": 4096,
        "container_memory_working_set_bytes": 1024,
        "container_threads": 7,
        "container_processes": 2,
        "container_fs_reads_bytes_total": 10,
        "container_fs_writes_bytes_total": 20,
        "container_network_receive_bytes_total": 30,
        "container_network_transmit_bytes_total": 40,
    }


def test_what_is_unknown_is_left_out() -> None:
    known = values(replace(USAGE, disk=None, network=None))

    assert "container_threads" in known
    assert not [name for name in known if "_fs_" in name or "_network_" in name]
