"""``mlbench record`` with any command, and ``mlbench.record()`` in a script."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from mlbench import ApiClient, archive
from mlbench.cli import load_command
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.local.home import Home
from mlbench_master.reading.promql import PrometheusClient
from tests.conftest import wait_for
from tests.support.disks import fill, small_disk
from tests.support.known import known
from tests.support.processes import descendants, run_text
from tests.support.recorded import RECORD, STEPS, at_stack, environ, left_in, run_of, sealed
from tests.support.stacks import losses, order_command, run_to_end

_OURS = re.compile(rb"mlbench: recorded as run .*\n")


@pytest.fixture
def user(stack: Home, tmp_path: Path) -> dict[str, str]:
    return at_stack(stack, tmp_path / "home")


@contextlib.contextmanager
def recording(
    client: ApiClient, user: dict[str, str], *command: str
) -> Iterator[tuple[subprocess.Popen[str], Run]]:
    """Start a recorded command; yield its recorder and its run."""
    words = [*RECORD, "--", *command]
    with subprocess.Popen(words, env=user, stderr=subprocess.PIPE, text=True) as process:
        yield process, run_of(client, known(process.stderr).readline())


def shipped(client: ApiClient, user: dict[str, str], folder: Path) -> Run:
    """Send what was recorded without a master; return the sealed run."""
    done = run_text([RECORD[0], "ship", folder], env=user)
    assert done.returncode == 0, done.stderr
    return sealed(client, run_of(client, done.stderr))


def run_script(client: ApiClient, user: dict[str, str], folder: Path, code: str) -> tuple[int, Run]:
    """Run a Python script; return its exit code and its sealed run."""
    (folder / "train.py").write_text(code)
    words = folder / "stderr"
    with words.open("w") as stderr:
        command = [sys.executable, str(folder / "train.py")]
        exited = subprocess.run(command, env=user, stderr=stderr, check=False, timeout=60)
    # A killed process does not wait until its run is created.
    wait_for(lambda: "recorded as run" in words.read_text(), what="the run is created")
    return exited.returncode, sealed(client, run_of(client, words.read_text()))


_ENDS = [
    *((["true"], 0), (["sh", "-c", "exit 3"], 3), (["no-such-program"], 127)),
    *((["/dev/null"], 126), (["sh", "-c", "kill -9 $$"], -9)),
]
_CLOSED = f"yes | {sys.executable} -c 'import time; time.sleep(1)'; exit 5"


@pytest.mark.parametrize(("command", "code"), [_ENDS[1], _ENDS[2], _ENDS[4]])
def test_the_exit_code_is_that_of_the_command(
    client: ApiClient, user: dict[str, str], command: Sequence[str], code: int
) -> None:
    done = run_text([*RECORD, "--", *command], env=user)
    assert done.returncode == code, done.stderr
    ended = run_to_end(client, run_of(client, done.stderr))
    assert (ended.state, ended.ranks[0].exit_code) == ("FAILED", code)
    assert left_in(user) == []


@pytest.mark.parametrize(("command", "code"), [*_ENDS, (["sh", "-c", _CLOSED], 5)])
def test_the_exit_code_is_that_of_the_command_without_a_master(
    tmp_path: Path, command: Sequence[str], code: int
) -> None:
    user = environ(tmp_path, "http://no address", "")
    done = run_text([*RECORD, "--", *command], env=user, timeout=20)
    assert (done.returncode, "mlbench: not recorded" in done.stderr) == (code, True)


def test_the_first_process_of_a_container_reports_a_signal_as_a_code(user: dict[str, str]) -> None:
    unshare = ["unshare", "--pid", "--fork"]
    if run_text([*unshare, "true"]).returncode:
        pytest.skip("only root can create a process namespace")
    done = run_text([*unshare, *RECORD, "--", "sh", "-c", "kill -9 $$"], env=user)
    assert done.returncode == 128 + signal.SIGKILL


def test_output_and_input_are_unchanged(user: dict[str, str], tmp_path: Path) -> None:
    data, errors = os.urandom(10 << 20), os.urandom(1 << 20)
    (tmp_path / "errors").write_bytes(errors)
    command = [*RECORD, "--", "sh", "-c", f"cat {tmp_path}/errors >&2; cat"]
    done = subprocess.run(command, env=user, input=data, capture_output=True, check=True)
    assert done.stdout == data
    assert _OURS.sub(b"", done.stderr) == errors


def test_a_slow_reader_and_a_closed_pipe(tmp_path: Path) -> None:
    user = environ(tmp_path, "", "")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # as some programs leave the pipe
    command = [*RECORD, "--", "head", "-c200000", "/dev/zero"]
    many = subprocess.Popen(command, env=user, stdout=writer)
    os.close(writer)
    time.sleep(1)
    with os.fdopen(reader, "rb") as pipe:
        assert len(pipe.read()) == 200_000
    assert many.wait(20) == 0
    with subprocess.Popen([*RECORD, "--", "yes"], env=user, stdout=subprocess.PIPE) as endless:
        output = known(endless.stdout)
        assert output.readline() == b"y\n"
        output.close()
        assert endless.wait(20) == -signal.SIGPIPE


def test_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "home").touch()  # force the use of the folder for temporary files
    user = {**environ(tmp_path / "home", "", ""), "TMPDIR": str(tmp_path)}
    shared = tmp_path / f"mlbench-{os.getuid()}"
    for is_foreign in (False, True):
        shared.mkdir(mode=0o777)
        if is_foreign:
            try:
                os.chown(shared, 65534, -1)
            except PermissionError:
                pytest.skip("only root can change the owner of a folder")
        done = run_text([*RECORD, "--", "true"], env=user)
        [folder] = re.findall(r"rank 0 is recorded in (.*): no master", done.stderr)
        assert (Path(folder).parent == shared) is not is_foreign
        assert (f"{shared} belongs to another user" in done.stderr) is is_foreign
        assert Path(folder).is_dir()
        shutil.rmtree(shared)


def test_a_signal_before_the_start_of_the_command_is_forwarded(tmp_path: Path) -> None:
    user = environ(tmp_path, "", "")
    with subprocess.Popen([*RECORD, "--", "sleep", "30"], env=user) as process:
        status = Path(f"/proc/{process.pid}/status")
        wait_for(lambda: re.search(r"SigCgt:\s*\w+[4-7c-f]\w{3}\n", status.read_text()))
        process.terminate()
        assert process.wait(20) == -signal.SIGTERM


_COUNT = """\
import os, signal, sys, time
count = 0
def note(*_):
    global count
    count += 1
signal.signal(getattr(signal, sys.argv[1]), note)
print(flush=True)
while not count: time.sleep(0.01)
time.sleep(0.5)
sys.exit(count)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_group_is_forwarded_once(tmp_path: Path, number: signal.Signals) -> None:
    command = [*RECORD, "--", sys.executable, "-c", _COUNT, number.name]
    user = environ(tmp_path, "", "")
    how: Any = {"env": user, "stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen(command, **how) as process:
        known(process.stdout).readline()
        process.send_signal(number)  # like timeout(1)
        time.sleep(0.01)
        os.killpg(process.pid, number)
        assert process.wait(20) == 1


def test_a_signal_to_a_background_job_is_forwarded_once(tmp_path: Path) -> None:
    # A shell with job control sends signals to the process group of a job.
    job = shlex.join([*RECORD, "--", sys.executable, "-c", _COUNT, "SIGTERM"])
    shell = f"exec 3>&1; {job} > {tmp_path}/out & until [ -s {tmp_path}/out ]; do sleep 0.1; done\n"
    script = f"{shell}kill %1; wait %1; echo code $?; exit\n"
    controller, terminal = os.openpty()
    how: Any = {"env": environ(tmp_path, "", ""), "start_new_session": True}
    command = ["setsid", "--ctty", "bash", "--norc", "-i", "-c", f"set -m; {script}"]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, **how) as process:
        out, _ = process.communicate(timeout=60)
    os.close(controller)
    os.close(terminal)
    assert b"code 1\n" in out


def test_a_background_process_with_inherited_output_does_not_block_the_end(tmp_path: Path) -> None:
    user = environ(tmp_path, "", "")
    done = run_text([*RECORD, "--", "sh", "-c", "sleep 60 & echo said"], env=user, timeout=30)
    assert (done.returncode, done.stdout) == (0, "said\n")


def test_a_command_may_have_any_arguments(client: ApiClient, user: dict[str, str]) -> None:
    words: list[str | bytes] = ["sh", "-c", "exit 0 #\n'", b"\xff", "x" * 5000]
    done = subprocess.run([*RECORD, "--", *words], env=user, capture_output=True, check=True)
    ended = run_to_end(client, run_of(client, done.stderr))
    assert (ended.state, ended.title) == ("FINISHED", "exit 0 # '")


def test_a_killed_recorder_ends_the_command(client: ApiClient, user: dict[str, str]) -> None:
    with recording(client, user, "sh", "-c", STEPS, "600", "0.1") as (process, run):
        wait_for(lambda: losses(client, run), what="the run records")
        shells = [child for child in descendants(process.pid) if child.name() == "sh"]
        process.kill()
    ended = run_to_end(client, run, 30)
    assert (ended.state, "its recorder was killed" in ended.reason) == ("FAILED", True)
    assert shells
    assert not psutil.wait_procs(shells, 10)[1]


def _kill_sidecar(process: psutil.Process) -> bool:
    """Kill the sidecar of a recorder or script, if it is running."""
    killed = False
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.cmdline()[:2] == [sys.executable, "-c"]:
                child.kill()
                killed = True
    return killed


def test_a_killed_sidecar_is_replaced(client: ApiClient, user: dict[str, str]) -> None:
    with recording(client, user, "sh", "-c", f"{STEPS} exit 5", "40", "0.1") as (process, run):
        wait_for(lambda: losses(client, run), what="the run records")
        assert _kill_sidecar(psutil.Process(process.pid))
        _, words = process.communicate(timeout=40)
    assert process.returncode == 5
    ended = sealed(client, run)
    assert (ended.state, ended.ranks[0].exit_code) == ("FAILED", 5)
    assert losses(client, ended) == [*range(40)]
    for text in (words, ended.reason):
        assert "sidecar was killed by signal 9" in text
    assert left_in(user) == []


def test_the_end_is_known_if_no_sidecar_survives(client: ApiClient, user: dict[str, str]) -> None:
    with recording(client, user, "sh", "-c", STEPS, "40", "0.1") as (process, _):
        recorder = psutil.Process(process.pid)
        while process.poll() is None:
            _kill_sidecar(recorder)
            time.sleep(0.05)
        _, words = process.communicate(timeout=20)
    [folder] = left_in(user)
    assert (process.returncode, f"with `mlbench ship {folder}`" in words) == (0, True), words
    ended = shipped(client, user, folder)
    assert (ended.state, ended.ranks[0].exit_code) == ("FINISHED", 0)
    assert losses(client, ended) == [*range(40)]


def test_an_unobserved_end_is_reported_as_unknown(client: ApiClient, user: dict[str, str]) -> None:
    nowhere = user | {names.ENV_URL: "", names.ENV_TOKEN: ""}
    command = [*RECORD, "--", "sh", "-c", f"{STEPS} echo; sleep 60", "3", "0.01"]
    with subprocess.Popen(command, env=nowhere, stdout=subprocess.PIPE) as process:
        known(process.stdout).readline()
        for left in [psutil.Process(process.pid), *descendants(process.pid)]:
            left.kill()
    [folder] = left_in(user)
    ended = shipped(client, user, folder)
    assert (ended.state, losses(client, ended)) == ("FAILED", [0, 1, 2])
    assert "nobody knows how it ended" in ended.reason


# --- mlbench.record() ---

_SCRIPT = """\
import mlbench, os, signal, sys, time
mlbench.record(name="script"); mlbench.record()
tracker = mlbench.Tracker()
tracker.log(train_loss=1.0); tracker.log(train_loss=2.0)
"""
_KILL = "import psutil; [child] = psutil.Process().children(); child.kill(); time.sleep(1)"


@pytest.mark.parametrize(
    ("rest", "code", "reason"),
    [
        ("", 0, ""),
        ("raise ValueError('diverged')", 1, "ValueError: diverged"),
        ("sys.exit(3)", 3, "code 3"),
        ("sys.exit('no data')", 1, "code 1"),
        ("if os.fork() == 0: sys.exit(4)\nos.wait(); tracker.log(train_loss=3)", 0, ""),
        ("if os.fork() == 0: time.sleep(20)\nos.kill(os.getpid(), 9)", -9, "without a word"),
        (f"{_KILL}; sys.exit(3)", 3, "code 3; the recorder sidecar was killed"),
    ],
)
def test_a_script_that_records_itself(
    client: ApiClient, user: dict[str, str], tmp_path: Path, rest: str, code: int, reason: str
) -> None:
    # The script's folder may contain modules with names of the standard library.
    (tmp_path / "http.py").write_text("raise SystemExit('not this')")
    exit_code, ended = run_script(client, user, tmp_path, _SCRIPT + rest)
    assert exit_code == code, ended.reason
    assert (ended.title, ended.state) == ("script", "FAILED" if code else "FINISHED")
    assert reason in ended.reason
    assert losses(client, ended) == ([1, 2, 3] if "=3" in rest else [1, 2])


_NOTEBOOK = """\
import os, sys, time, types
calls = {}
shell = types.SimpleNamespace(kernel=None, user_ns={"__vsc_ipynb_file__": "/home/ada/learn.ipynb"})
shell.events = types.SimpleNamespace(register=calls.__setitem__, unregister=calls.__delitem__)
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
import mlbench
end = mlbench.record()
def end_cell(error):
    result = types.SimpleNamespace(error_before_exec=None, error_in_exec=error)
    calls["post_run_cell"](result)
end_cell(ValueError("diverged"))
calls["pre_run_cell"](None)
mlbench.Tracker().log(train_loss=1.0)
print(repr(end), end._repr_html_())
assert repr(mlbench.record()) == "this process is recorded already"
"""


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("end_cell(None)", ""),
        ("end_cell(None); os.kill(os.getpid(), 9)", ""),
        ("os.kill(os.getpid(), 9)", "without a word"),
        ("end_cell(OSError('no data')); os.kill(os.getpid(), 9)", "OSError: no data"),
    ],
)
def test_a_notebook_has_the_state_of_its_last_cell(
    client: ApiClient, user: dict[str, str], tmp_path: Path, rest: str, reason: str
) -> None:
    _, ended = run_script(client, user, tmp_path, _NOTEBOOK + rest)
    assert (ended.title, ended.launcher) == ("learn.ipynb", "notebook")
    assert ended.state == ("FAILED" if reason else "FINISHED")
    assert reason in ended.reason
    assert losses(client, ended) == [1]


_BLOCKS = """\
import contextlib, mlbench, os, sys
for value in (1, 2):
    with contextlib.suppress(ValueError), mlbench.record("block"), mlbench.Tracker() as tracker:
        tracker.log(train_loss=value)
        if value == 2:
            raise ValueError("diverged")
try:
    with mlbench.record("block"):
        sys.exit(5)
except SystemExit:
    os._exit(0)
"""


def test_blocks_of_a_process_that_exits_at_once(client: ApiClient, user: dict[str, str]) -> None:
    done = run_text([sys.executable, "-c", _BLOCKS], env=user)
    assert done.returncode == 0, done.stderr
    first, second, third = [line for line in done.stderr.splitlines() if "recorded as run" in line]
    for line, state, reason, loss in (
        (first, "FINISHED", "", 1),
        (second, "FAILED", "diverged", 2),
    ):
        ended = sealed(client, run_of(client, line))
        assert (ended.state, reason in ended.reason, losses(client, ended)) == (state, True, [loss])
    assert run_to_end(client, run_of(client, third)).ranks[0].exit_code == 5


def test_a_run_of_mlbench_is_recorded_once(client: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_SCRIPT)
    ordered = order_command(client, "own", f"{sys.executable} {tmp_path}/train.py")
    ended = run_to_end(client, ordered)
    assert (ended.state, losses(client, ended)) == ("FINISHED", [1, 2])
    assert client.get_runs().result().value[-1].id == ended.id


_MANY = """\
import mlbench
tracker = mlbench.Tracker()
for step in range(30_000):
    tracker.log(train_loss=step)
print("done")
"""


_STEPS = """\
import mlbench, time
with mlbench.Tracker() as tracker:
    for _ in range(600):
        time.sleep(0.05)
        tracker.step(samples=1)
"""


@pytest.mark.slow
def test_steps_of_recorded_commands_are_monitored(
    client: ApiClient, stack: Home, user: dict[str, str]
) -> None:
    url = str(stack.read_connection().prometheus_url)
    with (
        recording(client, user, sys.executable, "-c", _STEPS) as (process, run),
        closing(PrometheusClient(url)) as prometheus,
    ):
        limit = f'run_rank:mlbench_worker_progress:limit_seconds{{run_id="{run.id}"}} < 600'
        wait_for(lambda: prometheus.query(limit), what="the rule knows its steps")
        steps = f'increase(mlbench_worker_steps_total{{run_id="{run.id}",rank="0"}}[1m]) > 0'
        wait_for(lambda: prometheus.query(steps), what="the steps are counted")
        process.terminate()
        process.communicate(timeout=30)


def test_a_full_disk(client: ApiClient, stack: Home, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        user = at_stack(stack, disk)
        code = "import time; time.sleep(1); print('x' * (4 << 20))"
        done = run_text([*RECORD, "--", sys.executable, "-c", code], env=user)
        assert (done.returncode, len(done.stdout)) == (0, (4 << 20) + 1)
        ended = run_to_end(client, run_of(client, done.stderr))
        assert "part of its output is not recorded: No space left on device" in ended.reason
        assert ended.state == "FINISHED"
        (disk / "train.py").write_text(_MANY)
        done = run_text([*RECORD, "--", sys.executable, disk / "train.py"], env=user)
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        ended = sealed(client, run_of(client, done.stderr))
        [lost] = re.findall(r"([\d,]+) values could not be written", done.stderr)
        assert (ended.state, f"{lost} values could not" in ended.reason) == ("FINISHED", True)
        assert len(losses(client, ended)) + int(lost.replace(",", "")) == 30_000
        assert known(ended.not_recorded).unwritten_values == int(lost.replace(",", ""))
        fill(disk)
        done = run_text([*RECORD, "--", "sh", "-c", "echo done; exit 3"], env=user)
        assert (done.returncode, done.stdout) == (3, "done\n")
        assert re.match("mlbench: not recorded: .*No space left on device", done.stderr)


@pytest.mark.parametrize("is_script", [False, True])
def test_a_missing_master_is_reported(
    client: ApiClient, user: dict[str, str], tmp_path: Path, is_script: bool
) -> None:
    nowhere = environ(tmp_path / "nowhere", "", "")
    (tmp_path / "train.py").write_text(_SCRIPT + "sys.exit(3)")
    script = [sys.executable, str(tmp_path / "train.py")]
    shell = [*RECORD, "--", "sh", "-c", f"{STEPS} exit 3", "3", "0.01"]
    began = time.monotonic()
    done = run_text(script if is_script else shell, env=nowhere)
    assert done.returncode == 3
    [folder] = left_in(nowhere)
    assert "are at no master (no stack is running here" in done.stderr
    assert done.stderr.count(f"rank 0 is recorded in {folder}: no master is named (") == 1
    assert f"they lie in {folder}, and `mlbench ship {folder}` sends them" in done.stderr
    took = time.monotonic() - began
    shutil.copytree(tmp_path / "nowhere", tmp_path / "backup")
    ended = shipped(client, user, folder)
    assert [*(tmp_path / "nowhere").iterdir()] == []
    assert (ended.state, ended.ranks[0].exit_code) == ("FAILED", 3)
    result = client.get_result(ended.id).result().value
    assert known(result.wall_seconds) < took
    assert known(result.cost).worker_seconds < took
    assert losses(client, ended) == ([1, 2] if is_script else [0, 1, 2])
    assert client.get_manifest(ended.id).result().value.machines


# --- Secrets ---


@pytest.mark.parametrize("hides", [False, True])
def test_no_secret_of_a_command_is_recorded(
    client: ApiClient, user: dict[str, str], tmp_path: Path, hides: bool
) -> None:
    option = ["--hide-command"] if hides else []
    script = f"{STEPS} # --token hunter3"
    command = ["sh", "-c", script, "3", "0.1", "--password", "hunter3", "PLAIN=1"]
    done = run_text([*RECORD, *option, "--", *command], env=user)
    assert done.returncode == 0
    run = sealed(client, run_of(client, done.stderr))
    assert run.command == "hidden" if hides else run.command.endswith(" --password '***' PLAIN=1")
    with (tmp_path / "x.mlbench").open("w+b") as file:
        client.download_archive(run.id, file)
    with archive.opened(tmp_path / "x.mlbench") as whole:
        members = b"".join(map(whole.text, whole.members)).decode()
    told = client.get_run(run.id).result().content + client.get_manifest(run.id).result().content
    assert "hunter3" not in members + told.decode()
    assert ("PLAIN=1" in members) != hides
    client.delete_run(run.id).result()


def test_the_help_lists_all_options() -> None:
    usage = run_text([*RECORD, "-h"], check=True).stdout
    described = {word for parameter in load_command("record").params for word in parameter.opts}
    listed = {*re.findall(r"--[a-z][a-z-]*", usage)} - {"--help"}
    assert listed == {word for word in described if word.startswith("--")}
