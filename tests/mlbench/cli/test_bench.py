"""``mlbench bench``: a set of runs in order, resumed, and compared."""

import itertools
import json
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.cli.bench import plan_places, read_sweeps, read_workers, seed_of_repeat
from mlbench.cli.common import UsageError
from mlbench.contract.records import Benchmark, Planned, Run
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.mlbench.cli.conftest import Mlbench
from tests.support.stacks import kill_service

_NAMES = itertools.count()
RunsOf = Callable[[str], list[Run]]

_LONG = "x" * 35
_FAST = ("--set", "steps=50", "--set", "rate=1000")
_SLOW = ("--set", "steps=3000", "--set", "rate=100")


def new_name() -> str:
    """Return a name that no set of the stack has."""
    return f"set-{os.getpid()}-{next(_NAMES)}"


def executable(folder: Path, code: str) -> str:
    """Write a shell script; return its path."""
    script = folder / "own.sh"
    script.write_text(f"#!/bin/sh\n{code}\n")
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def runs_of(client: ApiClient) -> RunsOf:
    """Function that returns the runs of a set, oldest first."""

    def runs_of(name: str) -> list[Run]:
        pattern = re.compile(rf"{name}-w\d+(-c\d+)?-r\d+")
        runs = client.get_runs().result().value
        return [run for run in runs if pattern.fullmatch(run.name)]

    return runs_of


def test_a_set_is_executed_and_compared(mlbench: Mlbench, runs_of: RunsOf, tmp_path: Path) -> None:
    report = tmp_path / "set.html"
    name = new_name()
    arguments = ("steps", "--workers", "1,2", "--repeats", "2", "--name", name, "-o", str(report))
    done = mlbench("bench", *arguments, *_FAST)
    assert done.code == 0, done.err
    ran = runs_of(name)
    assert {run.state for run in ran} == {"FINISHED"}
    places = [(2, 1), (1, 1), (1, 2), (2, 2)]
    assert [run.name for run in ran] == [f"{name}-w{n}-r{repeat}" for n, repeat in places]
    assert [run.num_workers for run in ran] == [n for n, _ in places]
    progress = re.findall(r"^run (\d) of 4: (\S+?)(, about .* left)?$", done.err, re.MULTILINE)
    told = [(int(slot), name, left != "") for slot, name, left in progress]
    assert told == [(slot, run.name, slot > 1) for slot, run in enumerate(ran, 1)]
    assert done.out.startswith("steps on 1, 2 workers\n4 runs, no target\n")
    assert re.search(r"^2 workers +2 +[\d,.]+ ", done.out, re.MULTILINE)
    assert "steps on 1, 2 workers" in report.read_text()

    again = json.loads(mlbench("bench", *arguments, *_FAST, "--json").output)
    [ledger] = again["sets"]
    assert ledger.startswith(f"set {name}: 4 of 4 slots have a run that counts; {len(ran)} runs")
    assert [run.id for run in runs_of(name)] == [run.id for run in ran], "no run is repeated"
    sizes = {group["label"]: len(group["run_ids"]) for group in again["groups"]}
    assert sizes == {"1 worker": 2, "2 workers": 2}

    other = mlbench("bench", *arguments, "--set", "steps=60", "--set", "rate=1000").refusal
    args = "args={'steps': '50', 'rate': '1000'}"
    assert f"--name: set {name} is already registered with {args}" in other


def test_each_run_of_own_code_has_another_seed_and_failures_are_reported(
    mlbench: Mlbench, client: ApiClient, runs_of: RunsOf, tmp_path: Path
) -> None:
    script = executable(tmp_path, 'echo "$MLBENCH_SEED $*"\n[ "$MLBENCH_SEED" != "$2" ]')
    report = tmp_path / "own.json"
    name = new_name()
    arguments = (script, "--workers=1", "--repeats=3", "--seed=7", f"--name={name}")
    done = mlbench("bench", *arguments, "-o", str(report), "--", "--bad", "8")
    assert done.code == 1
    summary = f"set {name}: 2 of 3 slots have a run that counts; 3 runs; 1 crashed"
    assert json.loads(report.read_text())["sets"] == [summary]
    runs = runs_of(name)
    assert [run.name for run in runs] == [f"{name}-w1-r{repeat}" for repeat in (1, 2, 3)]
    assert [run.state for run in runs] == ["FINISHED", "FAILED", "FINISHED"]
    logs = [client.get_logs(run.id).result().value.text for run in runs]
    assert logs == ["7 --bad 8\n", "8 --bad 8\n", "9 --bad 8\n"]
    assert f"run {runs[1].id} ({name}-w1-r2): FAILED: rank 0 on" in done.err
    assert done.err.endswith("1 of 3 runs did not finish\n")
    assert done.out.startswith("own code on 1 worker\n2 runs, no target\n")
    assert summary in done.out

    again = mlbench("bench", *arguments, "--json", "--", "--bad", "8").json
    assert [(run.name, run.seed) for run in runs_of(name)][3:] == [(f"{name}-w1-r2", 10)]
    assert again["sets"] == [f"set {name}: 3 of 3 slots have a run that counts; 4 runs; 1 crashed"]


def test_settings_of_own_code_are_swept_with_their_seeds(
    mlbench: Mlbench, client: ApiClient, runs_of: RunsOf, tmp_path: Path
) -> None:
    script = executable(tmp_path, 'echo "$LR $*"\necho epoch 1 loss 0.4 >&2')
    common = ("--workers=1", "--repeats=1", "--sweep=lr=0.05,0.2", "--json")
    name = new_name()
    own = ("--name", name, "--from-stdout", "--", "--epochs", "5", "--seed", "{seed}")
    done = mlbench("bench", script, *common, *own).json
    table = mlbench("watch", name).out.partition("Last values")[2]
    assert [line.split() for line in table.splitlines()] == [
        ["runs", "loss"],
        *(["lr", f"{rate},", "1", "worker", "1", "0.4"] for rate in ("0.05", "0.2")),
    ]
    logs = {client.get_logs(run.id).result().value.text for run in runs_of(name)}
    assert logs == {f" --epochs 5 --seed 1 --lr {rate}\n" for rate in ("0.05", "0.2")}
    groups = [(group["label"], len(group["run_ids"])) for group in done["groups"]]
    assert groups == [("lr 0.05", 1), ("lr 0.2", 1)]
    assert done["sweep"]["across"]["key"] == "lr"
    assert {run.swept["lr"] for run in runs_of(name)} == {"0.05", "0.2"}
    for run in runs_of(name):
        printed = client.get_run_metrics(run.id, metric_filter="loss").result().value
        assert [point.number for point in printed["loss @ 0"]] == [0.4]

    # A swept setting can be an environment variable.
    name = new_name()
    in_environ = ("--name", name, "--", "LR={lr}", script, "a")
    assert mlbench("bench", "env", *common, *in_environ).code == 0
    logs = {client.get_logs(run.id).result().value.text for run in runs_of(name)}
    assert logs == {"0.05 a\n", "0.2 a\n"}

    for sweep, words, problem in (
        ("lr=1,2", ("--lr", "3"), "--sweep lr=1,2: the command already has --lr. Write {lr}"),
        ("rank=1,2", (), "--sweep rank=1,2: MLBench fills in {rank}"),
        ("seed=1,2", (), "--sweep seed=1,2: each repeat has its own seed"),
    ):
        refused = mlbench("bench", script, "--workers=1", f"--sweep={sweep}", "--", *words)
        assert problem in refused.refusal


@pytest.mark.slow
def test_a_set_ends_once_its_means_are_precise_enough(mlbench: Mlbench, runs_of: RunsOf) -> None:
    # A busy machine can keep this rate, too.
    paced, name = ("--set=steps=200", "--set=rate=400"), new_name()
    arguments = ("--workers=1", "--repeats=9", f"--name={name}", "--until=80%", *paced)
    done = mlbench("bench", "steps", *arguments)
    assert done.code == 0, done.err
    *_, last, ledger = done.err.splitlines()
    assert last.endswith("finished: every mean is known to within 80%")
    assert re.fullmatch(rf"set {name}: ledger [0-9a-f]{{64}}", ledger)
    assert [run.name for run in runs_of(name)] == [f"{name}-w1-r{i}" for i in range(1, 6)]


@pytest.mark.slow
def test_ctrl_c_leaves_the_set_running_and_names_the_commands_for_it(
    mlbench: Mlbench, client: ApiClient, runs_of: RunsOf
) -> None:
    name = new_name()
    arguments = ("bench", "steps", "--workers=1", "--repeats=2", f"--name={name}", *_SLOW)
    with mlbench.on_terminal(*arguments, columns=100) as terminal:
        terminal.read_until("on 1 worker: training")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
    shown, stops = f"`mlbench watch {name}` shows it", f"`mlbench stop {name}` stops it"
    assert f"set {name} continues: {shown}, {stops}" in terminal.text
    [run] = runs_of(name)
    assert run.active
    # The next run starts without a terminal.
    client.stop_run(run.id).result()
    wait_for(lambda: len(runs_of(name)) == 2, what="the next run begins")
    _, last = runs_of(name)
    with mlbench.on_terminal("watch", name, columns=100) as again:
        again.read_until(rf"run {last.id} \({last.name}\) on 1 worker: training")
        assert mlbench("stop", name).output == f"set {name}: stopped\n"
        assert again.wait() == 1
    assert f"run {last.id} ({last.name}): STOPPED" in again.text
    assert len(runs_of(name)) == 2


def test_a_detached_set_is_stopped(mlbench: Mlbench, client: ApiClient, runs_of: RunsOf) -> None:
    name = new_name()
    arguments = ("bench", "steps", "--workers=1", "--repeats=4", f"--name={name}", "--detach")
    done = mlbench(*arguments, *_FAST)
    assert done.out == f"`mlbench watch {name}` shows the set, `mlbench stop {name}` stops it\n"
    wait_for(lambda: len(runs_of(name)) > 1, what="runs are submitted")
    assert mlbench("stop", name, "--json").json["state"] == "stopped"
    stopped = client.get_set(name).result().value
    before = len(runs_of(name))
    assert stopped.progress["planned"] == 4 - before
    assert mlbench("watch", name).code == 1
    again = mlbench(*arguments, *_FAST, "--json").json
    assert (again["state"], len(again["waiting"]) >= 4 - before) == ("running", True)
    assert mlbench("watch", name).code == 0
    assert client.get_set(name).result().value.progress["done"] == 4
    assert mlbench("watch", "nobody").refusal == "mlbench: set 'nobody' not found\n"


@pytest.mark.slow
def test_no_run_is_lost_or_repeated_when_the_controller_is_killed(
    mlbench: Mlbench, stack: Home, client: ApiClient, runs_of: RunsOf
) -> None:
    name = new_name()
    options = ("--workers=1", "--repeats=8", f"--name={name}", "--detach", *_FAST)
    assert mlbench("bench", "steps", *options).code == 0
    for begun in (2, 4, 6):
        wait_for(lambda: len(runs_of(name)) >= begun, what="further runs begin")  # noqa: B023
        kill_service(stack, "mlbench_master.controller")
    wait_for(lambda: not client.get_set(name).result().value.is_active, what="the set ends")
    runs = runs_of(name)
    assert [run.name for run in runs] == [f"{name}-w1-r{i}" for i in range(1, 9)]
    assert {run.state for run in runs} == {"FINISHED"}


@pytest.mark.slow
def test_a_disturbed_run_counts_and_names_the_other_program(
    mlbench: Mlbench, client: ApiClient, runs_of: RunsOf, tmp_path: Path
) -> None:
    hog, name = tmp_path / "setshog", new_name()
    hog.symlink_to("/bin/sh")
    cores = os.sched_getaffinity(0)
    keep_busy = [[str(hog), "-c", "while :; do :; done"] for _ in cores]
    # Train some epochs without reaching the target.
    trains = ("--set=epochs=6", "--set=learning_rate=1e-6")
    with ExitStack() as hogs:
        for core, command in zip(cores, keep_busy, strict=True):
            process = hogs.enter_context(subprocess.Popen(["taskset", "-c", str(core), *command]))
            hogs.callback(process.kill)
        done = mlbench("bench", "digits", "--workers=2", "--repeats=1", f"--name={name}", *trains)
    assert done.code == 0, done.err
    [run] = runs_of(name)
    [slot] = client.get_set(name).result().value.slots
    assert [(trial.disturbed, trial.counts) for trial in slot.trials] == [(True, True)]
    assert any("setshog" in text for text in client.get_result(run.id).result().value.disturbed)
    assert "disturbed" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--workers=1,99", "--workers: 99 workers need 99 cores, but this machine has "),
        ("--workers=1,99 --oversubscribe", "--workers: must be at most 16"),
        ("--workers=1,x", "--workers: must be numbers separated by"),
        (f"--name={_LONG}", f"--name: run names must have at most 40 characters (got '{_LONG}-w2-"),
        ("--until=5% --repeats=5", "--until: needs more than 5 repeats (got 5)"),
        ("--repeats=101", "--repeats: must have at most 200 entries (got 202)"),
        ("--official --repeats=9", "--official: each number of workers must have at"),
        ("--official --sweep=rate=1,2", "--official: sweeps cannot be scored"),
        ("--sweep=rate=100,fast", "--sweep rate=100,fast: must be a number (got 'fast')"),
        ("--sweep=cpus=1,99", "--workers: 2 workers need 198 cores, but this machine has"),
    ],
)
def test_an_impossible_set_is_refused_before_its_first_run(
    mlbench: Mlbench, client: ApiClient, arguments: str, message: str
) -> None:
    before = client.get_runs().result().value
    assert f"mlbench: {message}" in mlbench("bench", "steps", *arguments.split()).refusal
    assert [run.id for run in client.get_runs().result().value] == [run.id for run in before]


# --- Runs of a set ---


def test_numbers_of_workers_are_sorted() -> None:
    assert read_workers("1,2,4") == [1, 2, 4]
    assert read_workers("4,1,4") == [1, 4]
    for text in ("", "1,", "1,0", "two", "-1", "1 2", "²"):
        with pytest.raises(UsageError, match="must be numbers separated by commas"):
            read_workers(text)


def test_each_repeat_has_the_next_seed_if_the_task_takes_one() -> None:
    digits = Benchmark("digits", "", takes_seed=True)
    steps = Benchmark("steps", "", takes_seed=False)
    assert [seed_of_repeat(digits, None, repeat) for repeat in range(3)] == [1, 2, 3]
    assert [seed_of_repeat(None, 7, repeat) for repeat in range(2)] == [7, 8]
    assert seed_of_repeat(steps, None, 1) is None
    with pytest.raises(UsageError, match="steps does not take a seed"):
        seed_of_repeat(steps, 1, 0)


# --- Syntax of sweeps, and order of their runs ---


def test_values_keep_their_order_and_spelling() -> None:
    found = read_sweeps(["exchange=flat,bucketed", "bandwidth=100,20"])
    assert [*found.items()] == [("exchange", ["flat", "bucketed"]), ("bandwidth", ["100", "20"])]
    assert read_sweeps(["cpus=1,0.5"]) == {"cpus": ["1", "0.5"]}
    assert read_sweeps(None) == {}
    # Numbers may have units.
    values = read_sweeps(["bandwidth=none,20,0.5Mbit,40Mbit/s,2Gbit", "latency=1ms,0.5s", "rate=1"])
    assert [*values.values()] == [["none", "20", "0.5", "40", "2000"], ["1", "500"], ["1"]]


@pytest.mark.parametrize(
    ("sweeps", "problem"),
    [
        (["exchange"], "--sweep exchange: must be KEY=V1,V2"),
        (["exchange="], "--sweep exchange=: must be KEY=V1,V2"),
        (["=1,2"], "must be KEY=V1,V2"),
        (["rate=1,,2"], "must be KEY=V1,V2"),
        (["rate=1,2,1"], "--sweep rate=1,2,1: values must differ"),
        (["rate=1", "rate=2"], "--sweep rate=2: rate is swept twice"),
        (["cpus=1,x"], "--sweep cpus=1,x: must be of the form 2"),
        (["bandwidth=20MB"], "--sweep bandwidth=20MB: must be of the form"),
    ],
)
def test_invalid_syntax_is_refused(sweeps: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_sweeps(sweeps)


def test_every_other_repeat_runs_in_reverse_order() -> None:
    order = [(2, 5), (1, 5), (1, 6), (2, 6)]
    assert plan_places([1, 2], [5, 6], {}) == [Planned(*place) for place in order]
    swept = {"exchange": ["a", "b"], "bandwidth": ["5", "20"]}
    slots = plan_places([1], [1, 2, 3, 4], swept)
    repeats = [slots[i : i + 4] for i in range(0, 16, 4)]
    orders = [" ".join("".join(run.swept.values()) for run in runs) for runs in repeats]
    assert orders == ["a5 a20 b5 b20", "b20 b5 a20 a5", "b5 b20 a5 a20", "a20 a5 b20 b5"]
    assert [{run.seed for run in runs} for runs in repeats] == [{1}, {2}, {3}, {4}]
