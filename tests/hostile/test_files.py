"""A command may misuse its rank's files and disk, but harms only its own run."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local import launch
from mlbench.local.home import Home
from tests.conftest import running_stack, wait_for
from tests.support.disks import fill, small_disk
from tests.support.known import known
from tests.support.stacks import (
    assert_counted,
    kill_service,
    order_command,
    reload,
    run_to_end,
    service,
)

pytestmark = pytest.mark.slow

VALUES = 40

# Start of each script: the paths of the rank's files, and functions that record.
_BEGIN = f"""
import json, os, pathlib, shutil, signal, sys, time
metrics = pathlib.Path(os.environ["MLBENCH_METRICS_FILE"])
folder = metrics.parent

def line(value):
    return json.dumps({{"time": time.time(), "name": "loss", "value": value}}) + "\\n"

def record(file):
    for value in range({VALUES}):
        file.write(line(value))
        time.sleep(0.002)

def append():
    with metrics.open("a") as file:
        record(file)

def replace(path, make):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    make(path)
"""


def command(folder: Path, code: str) -> str:
    """Write a script and return the command that runs it."""
    script = folder / "train.py"
    script.write_text(_BEGIN + code)
    return f"{sys.executable} {script}"


def order(client: ApiClient, folder: Path, code: str) -> Run:
    """Start a run of a script on one worker."""
    return order_command(client, "hostile", command(folder, code), working_dir=str(folder))


def recorded(client: ApiClient, run: Run) -> int:
    series = client.get_run_metrics(run.id).result().value
    return len(series.get("loss @ 0", []))


def assert_works(client: ApiClient, folder: Path) -> None:
    """Assert that the next run succeeds."""
    ended = run_to_end(client, order(client, folder, "append()"))
    assert ended.state == "FINISHED", ended.reason
    assert recorded(client, ended) == VALUES


_REMOVE = "[path.unlink() for path in folder.iterdir() if path.is_file()]"
_REPLACE = """
metrics.unlink()
for name in ("stderr", "assignment.json", "counters"):
    replace(folder / name, os.mkfifo)
replace(folder / "stdout", lambda path: path.symlink_to("/dev/zero"))
replace(folder / "exit.json", os.mkdir)
replace(folder.parent / "checkpoints", os.mkfifo)
(folder / "sealed" / "inner").mkdir(parents=True)
(folder / "sealed").chmod(0)
"""
_REMOVE_ALL = "shutil.rmtree(folder.parent)"
_REPLACE_ALL = "replace(folder.parent, os.mkfifo)"


@pytest.mark.parametrize("deed", [_REMOVE, _REPLACE, _REMOVE_ALL, _REPLACE_ALL])
def test_recorded_values_survive_a_replaced_file(
    client: ApiClient, stack: Home, tmp_path: Path, deed: str
) -> None:
    agent = service(stack, "local-mlbench-worker-0")
    ended = run_to_end(client, order(client, tmp_path, f"append()\n{deed}\nprint('said')"))
    assert ended.state == "FINISHED", ended.reason
    assert recorded(client, ended) == VALUES
    assert client.get_logs(ended.id, 0).result().value.text == "said\n"
    assert_works(client, tmp_path)
    assert agent.is_running()


_HELP = "open it for appending ('a'), or use mlbench.Tracker"


@pytest.mark.parametrize(
    ("deed", "why"),
    [
        ("record(metrics.open('w'))", "cut short from"),
        ("append(); time.sleep(0.3); metrics.open('w')", "bytes by the command"),
        ("append(); time.sleep(0.3); metrics.open('w').write(line(0) * 500)", "was overwritten"),
        ("append(); metrics.open('r+').write(line(0))", "was overwritten"),
        ("append(); metrics.unlink(); append()", "was replaced"),
        ("append(); replace(metrics, os.mkfifo)", "was replaced"),
        ("append(); os.truncate(metrics, 1 << 40)", "made longer without being written"),
    ],
)
def test_modified_metrics_files_fail_the_run_with_the_reason(
    client: ApiClient, tmp_path: Path, deed: str, why: str
) -> None:
    ended = run_to_end(client, order(client, tmp_path, deed))
    assert ended.state == "FAILED"
    assert ended.reason.startswith("rank 0 on local-mlbench-worker-0: its metrics file was ")
    assert why in ended.reason
    assert _HELP in ended.reason or "longer" in why
    # The agent may have stopped the process before it exited.
    assert {rank.exit_code for rank in ended.ranks} <= {0, -15}
    assert_counted(ended)


def test_a_modified_metrics_file_fails_the_run_immediately(
    client: ApiClient, tmp_path: Path
) -> None:
    run = order(client, tmp_path, "record(metrics.open('w'))\ntime.sleep(600)")
    ended = run_to_end(client, run, seconds=20)
    assert (ended.state, _HELP in ended.reason) == ("FAILED", True)


def test_output_is_read_after_a_shell_truncates_it(client: ApiClient, tmp_path: Path) -> None:
    read = tmp_path / "read"
    code = (
        "print('one', flush=True)\n"
        f"while not os.path.exists({str(read)!r}): time.sleep(0.05)\n"
        "os.system('echo two > /dev/stdout'); time.sleep(0.3); print('three')"
    )
    run = order(client, tmp_path, code)
    wait_for(lambda: client.get_logs(run.id, 0).result().value.text == "one\n")
    read.touch()
    ended = run_to_end(client, run)
    assert ended.state == "FINISHED", ended.reason
    assert client.get_logs(ended.id, 0).result().value.text == "one\ntwo\nthree\n"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the stack is started, and commands without a folder run."""
    return tmp_path_factory.mktemp("here")


@pytest.fixture(scope="module")
def stack_here(
    prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory, here: Path
) -> Iterator[Home]:
    """A stack for the tests that kill and restart services."""
    root = tmp_path_factory.mktemp("stack-here")
    with ExitStack() as stacks:
        with chdir(here):
            # An empty entry means the current folder. Profiles that append to an unset variable
            # have it.
            started = running_stack(prometheus_binary, root, PYTHONPATH=":")
            home = stacks.enter_context(started)
        yield home


def test_services_do_not_import_code_left_by_a_command(
    stack_here: Home, here: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    trap = f"open({str(ran)!r}, 'a').write(__file__)"
    leave = f"""
names = "argparse json logging master mlbench_worker sitecustomize torch worker yaml".split()
for place in (pathlib.Path(), folder, folder.parent):
    for name in names:
        (place / f"{{name}}.py").write_text({trap!r})
append()
print(os.getcwd(), sorted(name for name in os.environ if "SAFE" in name))
"""
    with ApiClient.from_home(stack_here) as client:
        ended = run_to_end(client, order_command(client, "trap", command(tmp_path, leave)))
        assert ended.state == "FINISHED", ended.reason
        assert client.get_logs(ended.id, 0).result().value.text == f"{here} []\n"
        kill_service(stack_here, "local-mlbench-worker-0", "controller", "exporter", "gunicorn")
        assert_works(client, tmp_path)
        task = client.create_run(
            "task", 2, num_cpus=None, benchmark="digits-linear", args={"epochs": "1"}
        )
        ended = run_to_end(client, task.result().value)
        assert ended.state == "FINISHED", ended.reason
    assert not ran.exists(), ran.read_text()


def test_a_stack_restarts_with_damaged_files(stack_here: Home, here: Path, tmp_path: Path) -> None:
    with ApiClient.from_home(stack_here) as client:
        spoil = """
append()
for name in ("stdout", "stderr", "metrics.jsonl", "exit.json", "assignment.json"):
    replace(folder / name, os.mkfifo)
(folder.parent / "run-0").mkdir()
(folder.parent / "run-0" / "assignment.json").write_text('{"run_id": "../..", "command": []}')
replace(folder.parent / "checkpoints", os.mkfifo)
time.sleep(600)
"""
        run = order(client, tmp_path, spoil)
        wait_for(lambda: reload(client, run).ranks, what="the assignment of a worker")
        [rank] = reload(client, run).ranks
        checkpoints = stack_here.workers / rank.pod / "checkpoints"
        wait_for(checkpoints.is_fifo, what="the files are replaced")
    launch.stop(stack_here)
    with chdir(here):
        launch.start_detached(stack_here, workers=2)
    with ApiClient.from_home(stack_here) as client:
        ended = run_to_end(client, run)
        assert ended.state == "FAILED"
        assert_works(client, tmp_path)


# --- A worker's full disk ---

_FILL = """
def fill():
    filler = (folder.parent / "filler").open("ab", buffering=0)
    try:
        while filler.write(b"x" * 4096):
            pass
    except OSError:
        pass

append()
fill()
"""


@pytest.fixture
def disk(stack: Home) -> Iterator[Path]:
    """The folder of worker 0, on a disk of 2 MiB."""
    with small_disk(stack.workers / "local-mlbench-worker-0", 2 << 20) as folder:
        yield folder


def fill_all(folder: Path) -> Path:
    """Fill the disk completely, including space that the agent's next start would free."""
    wait_for(
        lambda: not list(folder.glob("run-*/assignment.json")), what="the end of the agent's runs"
    )
    for old in folder.glob("run-*"):
        shutil.rmtree(old)
    return fill(folder)


def test_a_run_ends_and_can_be_stopped_on_a_full_disk(
    client: ApiClient, disk: Path, tmp_path: Path
) -> None:
    ended = run_to_end(client, order(client, tmp_path, _FILL))
    assert ended.state == "FINISHED", ended.reason
    assert recorded(client, ended) == known(ended.delivery).recorded
    assert (disk / "filler").exists()

    # The next run cannot store its files, and its reason says so.
    fill_all(disk)
    refused = run_to_end(client, order(client, tmp_path, "append()"))
    assert refused.state == "FAILED"
    assert "rank 0 on local-mlbench-worker-0: it cannot keep its files: " in refused.reason
    assert "No space left on device" in refused.reason

    # A run without space for its error message still gets a reason.
    (disk / "filler").unlink()
    silent = run_to_end(client, order(client, tmp_path, f"{_FILL}\nsys.exit('words')"))
    assert silent.state == "FAILED"
    assert "exited with code 1 while its worker's disk was full" in silent.reason

    # After the disk is freed, runs work. A run whose disk is full again can be stopped.
    (disk / "filler").unlink()
    active = order(client, tmp_path, f"{_FILL}\ntime.sleep(600)")
    wait_for(lambda: recorded(client, active) > 0, what="a recorded value")
    wait_for((disk / "filler").exists, what="the disk is full")
    client.stop_run(active.id).result()
    assert run_to_end(client, active).state == "STOPPED"
    (disk / "filler").unlink()
    assert_works(client, tmp_path)
