"""A training process ends with all its descendants, however it or its agent ends."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mlbench.contract.names import ENV_METRICS_FILE
from mlbench_worker.agent.training_process import end_left
from tests.conftest import wait_for
from tests.support.processes import run_text

_SLEEP = "import time; time.sleep(60)"
_SAY_PID = "import os; print(os.getpid(), flush=True)"


def run(folder: Path, *arguments: str) -> dict[str, float]:
    """Run a command as the agent would, and return its exit."""
    command = [sys.executable, "-m", "tests.worker.agent.run_process", str(folder), *arguments]
    # Readline sets LINES and COLUMNS without Python's knowledge.
    done = run_text(command, env=os.environ, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def python(code: str) -> list[str]:
    return ["--", sys.executable, "-c", code]


def pids(folder: Path) -> list[int]:
    """Return the process ids in the output, one per line."""
    return [int(line) for line in (folder / "stdout").read_text().split()]


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_process_can_hide_its_environment() -> None:
    """Even processes of the same user cannot read it. As root, the test first becomes nobody."""
    code = (
        "import subprocess, sys;"
        "from mlbench_worker.agent.training_process import hide_from_others;"
        "sys.argv[1] == 'hide' and hide_from_others();"
        "sys.exit(subprocess.run(['cat', '/proc/%d/environ' % __import__('os').getpid()],"
        " capture_output=True).returncode)"
    )
    user = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.getuid() == 0 else []

    def reads(word: str) -> int:
        return subprocess.run([*user, sys.executable, "-c", code, word], check=False).returncode

    assert (reads("show"), reads("hide")) == (0, 1)


def test_exit_code_time_and_cores(tmp_path: Path) -> None:
    before, core = time.time(), min(os.sched_getaffinity(0))
    code = "import os, sys; print(*os.sched_getaffinity(0)); sys.exit('why')"
    ended = run(tmp_path, str(core), *python(code))
    assert ended["code"] == 1
    assert before < ended["at"] < time.time()
    assert (tmp_path / "stdout").read_text() == f"{core}\n"
    assert (tmp_path / "stderr").read_text() == "why\n"


def test_a_missing_command_or_folder_is_reported(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert run(tmp_path, "--", "no-such-command", "x")["code"] == 127
    assert run(tmp_path, f"in={gone}", "--", "true")["code"] == 127
    assert (tmp_path / "stderr").read_text() == (
        "cannot start no-such-command: No such file or directory\n"
        f"cannot start true in {gone}: No such file or directory\n"
    )


@pytest.mark.parametrize("own_session", [False, True])
def test_processes_that_a_command_leaves_are_ended(tmp_path: Path, own_session: bool) -> None:
    ended = run(
        tmp_path,
        *python(
            "import subprocess, sys; "
            f"child = subprocess.Popen([sys.executable, '-c', {_SLEEP!r}], "
            f"start_new_session={own_session}); print(child.pid)"
        ),
    )
    assert ended["code"] == 0
    [child] = pids(tmp_path)
    assert gone(child)


@pytest.mark.parametrize(
    ("on_term", "code", "least_seconds"),
    [("lambda *_: sys.exit(7)", 7, 0.0), ("signal.SIG_IGN", -9, 1.0)],
)
def test_stop_terminates_and_kills_after_a_grace_period(
    tmp_path: Path, on_term: str, code: int, least_seconds: float
) -> None:
    command = (
        f"import signal, sys, time; signal.signal(signal.SIGTERM, {on_term}); "
        "print('ready', flush=True); time.sleep(60)"
    )
    began = time.monotonic()
    assert run(tmp_path, "stop", *python(command))["code"] == code
    assert least_seconds < time.monotonic() - began < 10


_LEAVING = f"""
import os, subprocess, sys
{_SAY_PID}
subprocess.Popen([sys.executable, "-c", {_SAY_PID + "; " + _SLEEP!r}], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {_SAY_PID}
        {_SLEEP}
    os._exit(0)
{_SLEEP}
"""


@pytest.mark.parametrize("kill", range(3))
def test_a_killed_agent_ends_processes_outside_its_group(tmp_path: Path, kill: int) -> None:
    agent = (sys.executable, "-m", "tests.worker.agent.run_process", str(tmp_path))
    stdout = tmp_path / "stdout"
    with subprocess.Popen([*agent, *python(_LEAVING)]) as killed:
        wait_for(lambda: stdout.exists() and len(pids(tmp_path)) == 3, what="all have begun")
        killed.kill()
    wait_for(lambda: all(map(gone, pids(tmp_path))), 5, f"all are gone after kill {kill}")


def test_the_next_agent_ends_only_processes_of_its_attempts(tmp_path: Path) -> None:
    def start(folder: Path) -> subprocess.Popen[bytes]:
        environ = {**os.environ, ENV_METRICS_FILE: str(folder / "run-1" / "metrics.jsonl")}
        return subprocess.Popen(["sleep", "60"], env=environ, start_new_session=True)

    with start(tmp_path / "worker-0") as left, start(tmp_path / "worker-00") as other:
        end_left(tmp_path / "worker-0")
        assert gone(left.pid)
        assert other.poll() is None
        other.kill()


def test_the_first_process_of_a_container_needs_no_shell(tmp_path: Path) -> None:
    container = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
    if subprocess.run([*container, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process namespaces here")
    module = ("-m", "tests.worker.agent.run_process", str(tmp_path))
    leaves_orphan = (
        "import subprocess, sys; print('out');"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " start_new_session=True)"
    )
    done = run_text(
        [*container, "env", "PATH=/none", sys.executable, *module, *python(leaves_orphan)],
        check=True,
    )
    assert json.loads(done.stdout)["code"] == 0
    assert (tmp_path / "stdout").read_text() == "out\n"
