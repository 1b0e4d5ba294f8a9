"""A command may do what it likes to the files of its rank: it harms its own run at most."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.client import Run
from mlbench.home import Home
from mlbench.stack import launch
from tests.conftest import wait_for
from tests.stacks import run_to_end, service, training

pytestmark = pytest.mark.slow

VALUES = 40

# What every command here begins with: where its files are, and how to record.
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


@pytest.fixture
def client(stack: Home) -> Iterator[ApiClient]:
    with ApiClient.from_home(stack) as opened:
        yield opened


def order(client: ApiClient, folder: Path, code: str) -> Run:
    """Order a run of a script on one worker."""
    script = folder / "train.py"
    script.write_text(_BEGIN + code)
    ordered = client.create_run(
        "hostile",
        1,
        custom_image_name="none/needed",
        custom_image_command=f"{sys.executable} {script}",
        working_dir=str(folder),
    )
    return ordered.result().value


def losses(client: ApiClient, run: Run) -> int:
    series = client.get_run_metrics(run.id).result().value
    return len(series.get("loss @ 0", []))


def assert_works(client: ApiClient, folder: Path) -> None:
    """Assert that the next run is as good as any."""
    ended = run_to_end(client, order(client, folder, "append()"))
    assert ended.state == "FINISHED", ended.reason
    assert losses(client, ended) == VALUES


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
def test_what_was_recorded_survives_whatever_has_its_place(
    client: ApiClient, stack: Home, tmp_path: Path, deed: str
) -> None:
    agent = service(stack, "local-mlbench-worker-0")
    ended = run_to_end(client, order(client, tmp_path, f"append()\n{deed}\nprint('said')"))
    assert ended.state == "FINISHED", ended.reason
    assert losses(client, ended) == VALUES
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
def test_values_that_are_taken_back_fail_the_run_and_it_says_why(
    client: ApiClient, tmp_path: Path, deed: str, why: str
) -> None:
    ended = run_to_end(client, order(client, tmp_path, deed))
    assert ended.state == "FAILED"
    assert ended.reason.startswith("rank 0 on local-mlbench-worker-0: its metrics file was ")
    assert why in ended.reason
    assert _HELP in ended.reason or "longer" in why
    assert [rank.exit_code for rank in ended.ranks] == [0]
    assert ended.delivery is not None
    assert ended.delivery.recorded == ended.delivery.in_prometheus + ended.delivery.kept


def test_it_is_told_soon_and_not_after_hours_of_training(client: ApiClient, tmp_path: Path) -> None:
    run = order(client, tmp_path, "record(metrics.open('w'))\ntime.sleep(600)")
    ended = run_to_end(client, run, seconds=20)
    assert (ended.state, _HELP in ended.reason) == ("FAILED", True)


def test_what_is_printed_is_read_on_where_a_shell_cuts_it_short(
    client: ApiClient, tmp_path: Path
) -> None:
    said = "print('one', flush=True); time.sleep(0.3); os.system('echo two > /dev/stdout')"
    ended = run_to_end(client, order(client, tmp_path, f"{said}\ntime.sleep(0.3); print('three')"))
    assert ended.state == "FINISHED", ended.reason
    assert client.get_logs(ended.id, 0).result().value.text == "one\ntwo\nthree\n"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a stack is started: commands start there too, unless they name a folder."""
    return tmp_path_factory.mktemp("here")


@pytest.fixture(scope="module")
def stack_here(
    prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory, here: Path
) -> Iterator[Home]:
    """A stack whose parts the tests of this file kill and start again."""
    home = Home(tmp_path_factory.mktemp("stack-here"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROMETHEUS", str(prometheus_binary))
        # As an unset variable leaves it in a profile: an empty entry means the current folder.
        patch.setenv("PYTHONPATH", ":")
        patch.chdir(here)
        launch.start_detached(home, workers=2, port=None)
    yield home
    launch.stop(home)


def test_no_part_runs_what_a_command_leaves_where_it_may_write(
    stack_here: Home, here: Path, tmp_path: Path
) -> None:
    home = stack_here
    ran = tmp_path / "ran"
    trap = f"open({str(ran)!r}, 'a').write(__file__)"
    with ApiClient.from_home(home) as client:
        leave = f"""
for place in (pathlib.Path(), folder, folder.parent):
    for name in ("argparse", "logging", "yaml", "sitecustomize"):
        (place / f"{{name}}.py").write_text({trap!r})
append()
print(os.getcwd(), sorted(name for name in os.environ if "SAFE" in name))
"""
        script = tmp_path / "train.py"
        script.write_text(_BEGIN + leave)
        command = f"{sys.executable} {script}"
        ordered = client.create_run(
            "trap", 1, custom_image_name="none/needed", custom_image_command=command
        )
        ended = run_to_end(client, ordered.result().value)
        assert ended.state == "FINISHED", ended.reason
        assert client.get_logs(ended.id, 0).result().value.text == f"{here} []\n"
        parts = ("local-mlbench-worker-0", "master.controller", "exporter", "gunicorn")
        killed = {part: service(home, part) for part in parts}
        for process in killed.values():
            process.kill()
        for part, process in killed.items():
            wait_for(partial(_again, home, part, process.pid), what=f"{part} was started again")
        (tmp_path / "next").mkdir()
        wait_for(lambda: _answers(client), what="the API answers")
        assert_works(client, tmp_path / "next")
    assert not ran.exists(), ran.read_text()


def _again(home: Home, part: str, before: int) -> bool:
    try:
        return service(home, part).pid != before
    except ValueError:
        return False


def _answers(client: ApiClient) -> bool:
    try:
        client.get_runs().result()
    except Exception:
        return False
    return True


def test_a_stack_starts_again_whatever_was_left(
    stack_here: Home, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        checkpoints = stack_here.workers / "local-mlbench-worker-0" / "checkpoints"
        wait_for(checkpoints.is_fifo, what="all is spoilt")
    launch.stop(stack_here)
    monkeypatch.chdir(here)
    launch.start_detached(stack_here, workers=2, port=None)
    with ApiClient.from_home(stack_here) as client:
        ended = run_to_end(client, run)
        assert ended.state == "FAILED"
        assert_works(client, tmp_path)


def test_others_may_not_look_into_what_a_rank_writes(
    client: ApiClient, stack: Home, tmp_path: Path
) -> None:
    run = order(client, tmp_path, "append(); time.sleep(600)")
    wait_for(lambda: losses(client, run) == VALUES, what="it has recorded")
    [folder] = (stack.workers / "local-mlbench-worker-0").glob("run-*")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    client.stop_run(run.id).result()
    run_to_end(client, run)
    assert {mode for name, mode in modes.items() if name in (folder.name, "counters")} == {0o700}
    assert {modes[name] for name in ("stdout", "stderr", "metrics.jsonl", "assignment.json")} == {
        0o600
    }
    assert not training(stack, 0)
