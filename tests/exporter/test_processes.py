"""Real processes are assigned to pods, and a pod's totals survive the end of its processes."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from mlbench_exporter import exported_series as series
from mlbench_exporter.processes import (
    MAX_READINGS,
    ProcessSource,
    Usage,
    add,
    adopt,
    find_processes,
    measure,
    named_pod,
)

from .conftest import Agent, StartPod

MIB = 1 << 20

# A child that runs some code, confirms it, and waits until its stdin is closed.
PIPES = "stdin=subprocess.PIPE, stdout=subprocess.PIPE"
CHILD = "subprocess.Popen([sys.executable, '-c', {code!r}], " + PIPES + "{more})"
WAIT = "\nprint(flush=True)\nimport sys; sys.stdin.read()"
BURN = "import time\nwhile time.process_time() < 0.3: pass"
WRITE = "import os\nwith open({path!r}, 'wb') as f: f.write(bytes(4 << 20)); os.fsync(f)"


def start_child(agent: Agent, code: str, more: str = "") -> None:
    """Start a child that runs ``code`` and then waits; return when it waits."""
    agent.do("child = " + CHILD.format(code=code + WAIT, more=more))
    agent.do("assert child.stdout.readline()")


def read_one(home: Path) -> Usage:
    (usage,) = ProcessSource(home, "laptop").read_pods().values()
    return usage


def test_a_pod_is_the_sum_of_known_process_usage() -> None:
    known: Usage = {series.CPU_USAGE: 0.1, series.THREADS: 4, series.FS_READS: 7}
    zombie: Usage = {series.CPU_USAGE: 0.2, series.THREADS: 0}

    assert add([known, known])[series.FS_READS] == 14
    # As floats, 0.1 + 0.2 > 0.3. Such a counter would fall when a child's time moves to its parent.
    assert add([known, zombie]) == {series.CPU_USAGE: 0.3, series.THREADS: 4}


def test_processes_are_found_by_pod_and_home(start_pod: StartPod, tmp_path: Path) -> None:
    zero = start_pod("worker-0")
    start_pod("worker-1")
    start_pod("worker-0", home=tmp_path / "other")
    start_child(zero, "")

    pods = ProcessSource(tmp_path, "laptop").read_pods()

    processes = {pod: usage[series.PROCESSES] for pod, usage in pods.items()}
    assert processes == {"worker-0": 2, "worker-1": 1}
    usage = pods["worker-0"]
    assert usage[series.THREADS] == 2
    assert MIB < usage[series.MEMORY_WORKING_SET] < usage[series.MEMORY_USAGE] < 200 * MIB
    assert series.NETWORK_RECEIVE not in usage  # the pod shares the network of this process


def test_a_child_that_hides_its_environment_belongs_to_its_parents_pod(
    start_pod: StartPod, tmp_path: Path
) -> None:
    # PR_SET_DUMPABLE 0: only privileged processes may read the child's environment and I/O.
    start_child(start_pod("worker-0"), "import ctypes; ctypes.CDLL(None).prctl(4, 0)")

    assert read_one(tmp_path)[series.PROCESSES] == 2


def test_totals_do_not_fall_when_a_child_ends(start_pod: StartPod, tmp_path: Path) -> None:
    agent = start_pod("worker-0")
    before = read_one(tmp_path)
    with TemporaryDirectory() as on_disk:  # tmp_path may be in memory
        start_child(agent, f"{BURN}\n{WRITE.format(path=f'{on_disk}/file')}")
        running = read_one(tmp_path)
        # Read the pod while its child is a zombie, and again after the child was reaped.
        agent.do("child.stdin.close(); os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)")
        ended = read_one(tmp_path)
        agent.do("child.wait()")
        reaped = read_one(tmp_path)

    usages = [before, running, ended, reaped]
    assert [usage[series.PROCESSES] for usage in usages] == [1, 2, 1, 1]
    assert ended[series.MEMORY_USAGE] < running[series.MEMORY_USAGE]
    for kind in (series.CPU_USAGE, series.CPU_USER):
        totals = [usage[kind] for usage in usages]
        assert totals == sorted(totals)
    used = reaped[series.CPU_USAGE] - before[series.CPU_USAGE]
    assert 0.25 < used < 0.65, "not the child's 0.3 seconds"
    if running[series.FS_WRITES] == 0:
        pytest.skip("the temporary folder is not on a disk")
    # Some kernels hide the I/O of a zombie, which is then left out.
    readings = [usage for usage in (running, ended, reaped) if series.FS_WRITES in usage]
    assert len(readings) >= 2
    written = [usage[series.FS_WRITES] for usage in readings]
    read = [usage[series.FS_READS] for usage in readings]
    assert 4 * MIB <= written[0] <= written[-1] < 8 * MIB
    assert (written, read) == (sorted(written), sorted(read))


def test_cpu_time_does_not_fall_when_the_agent_reaps_orphans(
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

    assert (running[series.PROCESSES], reaped[series.PROCESSES]) == (3, 1)
    assert 0.25 < running[series.CPU_USAGE] <= reaped[series.CPU_USAGE]


@pytest.mark.parametrize("child_first", [False, True])
def test_a_child_that_is_reaped_while_its_pod_is_read_is_counted_once(
    child_first: bool, start_pod: StartPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = start_pod("worker-0")
    start_child(agent, BURN)
    running = read_one(tmp_path)
    measured: list[int] = []

    def in_order(home: Path) -> dict[int, str]:
        return dict(sorted(find_processes(home).items(), reverse=child_first))

    def measure_then_reap(process: psutil.Process) -> Usage | None:
        usage = measure(process)
        measured.append(process.pid)
        if len(measured) == 1:
            agent.do("child.stdin.close(); child.wait()")
        return usage

    monkeypatch.setattr("mlbench_exporter.processes.find_processes", in_order)
    monkeypatch.setattr("mlbench_exporter.processes.measure", measure_then_reap)
    reaped = read_one(tmp_path)

    assert (measured[0] != agent.process.pid) == child_first
    assert reaped[series.PROCESSES] == 1
    assert 0 <= reaped[series.CPU_USAGE] - running[series.CPU_USAGE] < 0.2


def test_changing_processes_do_not_delay_a_scrape(
    start_pod: StartPod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_pod("worker-0")
    asked: list[int] = []

    def is_running(process: psutil.Process) -> bool:
        asked.append(process.pid)
        return False

    monkeypatch.setattr(psutil.Process, "is_running", is_running)

    assert read_one(tmp_path)[series.PROCESSES] == 1
    assert len(asked) == MAX_READINGS


def test_a_separate_network_namespace_is_counted(start_pod: StartPod, tmp_path: Path) -> None:
    unshare = ("unshare", "--map-root-user", "--net")
    try:
        subprocess.run([*unshare, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not make a network namespace")
    start_pod("worker-0", prefix=unshare)

    # The namespace has only a loopback interface.
    assert read_one(tmp_path)[series.NETWORK_RECEIVE] == 0


@pytest.mark.parametrize(
    ("environment", "pod"),
    [
        (b"PATH=/bin\0MLBENCH_POD=worker-0\0MLBENCH_HOME=/here\0", "worker-0"),
        (b"MLBENCH_HOME=/here/\0MLBENCH_POD=worker-0", "worker-0"),
        (b"MLBENCH_HOME=/there\0MLBENCH_POD=worker-0\0", ""),
        (b"MLBENCH_HOME=/h\xff\0MLBENCH_POD=p\0", ""),
        (b"MLBENCH_POD=worker-0\0", None),
        (b"MLBENCH_HOME=/here\0MLBENCH_POD=\0", None),
        (b"MLBENCH_HOME=/here\0NOTE=MLBENCH_POD=worker-0\0", None),
    ],
)
def test_the_pod_is_read_from_the_environment_if_the_home_matches(
    environment: bytes, pod: str | None
) -> None:
    assert named_pod(environment, Path("/here")) == pod


def test_a_process_without_a_pod_belongs_to_its_nearest_ancestors_pod() -> None:
    assert adopt({10: "a", 12: ""}, {11: 10, 13: 12, 14: 13, 15: 1}) == {
        **{10: "a", 11: "a"},
        **{12: "", 13: "", 14: ""},
    }
    # These parents changed while they were read, so they form a cycle.
    assert adopt({1: "a"}, {2: 3, 3: 2}) == {1: "a"}
