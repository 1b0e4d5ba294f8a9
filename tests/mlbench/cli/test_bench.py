"""``mlbench bench``: a set of runs, in order, gone on with, and compared."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlbench import ApiClient
from mlbench.cli.bench import (
    PlannedRun,
    check_earlier,
    find_earlier,
    plan_runs,
    read_workers,
    seconds_left,
    seed_of_repeat,
)
from mlbench.cli.common import UsageError
from mlbench.cli.order import Order
from mlbench.records import Benchmark, Run
from tests.mlbench.cli.conftest import Mlbench
from tests.mlbench.conftest import wait_for_end
from tests.mlbench.report.making import make_run

RunsOf = Callable[[str], list[Run]]

_FAST = ("--set", "steps=50", "--set", "rate=1000")
_SLOW = ("--set", "steps=3000", "--set", "rate=100")


@pytest.fixture
def runs_of(client: ApiClient) -> Iterator[RunsOf]:
    """Gives the runs of a set, the oldest first; they are deleted at the end."""
    names: set[str] = set()

    def runs_of(name: str) -> list[Run]:
        names.add(name)
        pattern = re.compile(rf"{name}-w\d+-r\d+")
        runs = client.get_runs().result().value
        return [run for run in runs if pattern.fullmatch(run.name)]

    yield runs_of
    for run in [run for name in names for run in runs_of(name)]:
        if run.active:
            client.stop_run(run.id).result()
            wait_for_end(client, run)
        client.delete_run(run.id).result()


def test_a_set_is_run_in_turn_and_compared(
    mlbench: Mlbench, runs_of: RunsOf, tmp_path: Path
) -> None:
    report = tmp_path / "set.md"
    arguments = ("steps", "--workers", "1,2", "--repeats", "2", "--name", "set", "-o", str(report))
    done = mlbench("bench", *arguments, *_FAST)
    assert done.code == 0, done.err
    assert [(run.name, run.num_workers, run.state) for run in runs_of("set")] == [
        ("set-w2-r1", 2, "FINISHED"),
        ("set-w1-r1", 1, "FINISHED"),
        ("set-w2-r2", 2, "FINISHED"),
        ("set-w1-r2", 1, "FINISHED"),
    ]
    told = re.findall(r"^run (\d) of 4: (\S+?)(, about .* left)?$", done.err, re.MULTILINE)
    assert [(place, name) for place, name, _ in told] == [
        ("1", "set-w2-r1"),
        ("2", "set-w1-r1"),
        ("3", "set-w2-r2"),
        ("4", "set-w1-r2"),
    ]
    assert [left != "" for _, _, left in told] == [False, True, True, True]
    assert done.out.startswith("steps on 1, 2 workers\n4 runs, no goal\n")
    assert re.search(r"^2 workers +2 +[\d,.]+ ", done.out, re.MULTILINE)
    assert report.read_text().startswith("# steps on 1, 2 workers\n")

    again = mlbench("bench", *arguments, *_FAST, "--json")
    assert (again.code, again.err, again.json["left_out"]) == (0, "", 0)
    assert len(runs_of("set")) == 4, "nothing is run twice"
    assert {group["label"]: len(group["run_ids"]) for group in again.json["groups"]} == {
        "1 worker": 2,
        "2 workers": 2,
    }

    other = mlbench("bench", *arguments, "--set", "steps=60", "--set", "rate=1000")
    assert other.code == 2
    assert re.fullmatch(
        r"mlbench: run \d+ \(set-w2-r1\) differs in option steps: "
        r"choose another --name, or delete it\n",
        other.err,
    )


def test_own_code_has_another_seed_each_time_and_failures_are_told(
    mlbench: Mlbench, client: ApiClient, runs_of: RunsOf, tmp_path: Path
) -> None:
    script = tmp_path / "own.sh"
    script.write_text('#!/bin/sh\necho "$MLBENCH_SEED $*"\n[ "$MLBENCH_SEED" != "$2" ]\n')
    script.chmod(0o755)
    report = tmp_path / "own.json"
    arguments = (str(script), "--workers=1", "--repeats=3", "--seed=7", "--name=own")
    done = mlbench("bench", *arguments, "-o", str(report), "--", "--bad", "8")
    assert done.code == 1
    assert json.loads(report.read_text())["left_out"] == 1
    runs = runs_of("own")
    assert [(run.name, run.state) for run in runs] == [
        ("own-w1-r1", "FINISHED"),
        ("own-w1-r2", "FAILED"),
        ("own-w1-r3", "FINISHED"),
    ]
    said = [client.get_logs(run.id).result().value.text for run in runs]
    assert said == ["7 --bad 8\n", "8 --bad 8\n", "9 --bad 8\n"]
    assert f"run {runs[1].id} (own-w1-r2): FAILED: rank 0 on" in done.err
    assert done.err.endswith("1 of 3 runs did not finish, and are left out\n")
    assert done.out.startswith(
        "own code on 1 worker\n2 runs, no goal; left out: 1 that did not finish\n"
    )


def test_a_set_ends_once_its_means_are_known_well_enough(mlbench: Mlbench, runs_of: RunsOf) -> None:
    # At a rate that a busy machine keeps too.
    paced = ("--set=steps=200", "--set=rate=400")
    arguments = ("--workers=1", "--repeats=9", "--name=known", "--until=80%", *paced)
    done = mlbench("bench", "steps", *arguments)
    assert done.code == 0, done.err
    assert done.err.endswith("every mean is known to within 80%\n")
    assert [run.name for run in runs_of("known")] == [f"known-w1-r{i}" for i in (1, 2, 3)]
    wrong = mlbench("bench", "steps", "--until=half")
    assert (wrong.code, "'half' is no share: write 5%" in wrong.err) == (2, True)


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_the_run_is_taken_up_again(
    mlbench: Mlbench, client: ApiClient, runs_of: RunsOf
) -> None:
    arguments = ("bench", "steps", "--workers=1", "--repeats=1", *_SLOW)
    with mlbench.on_terminal(*arguments, columns=100) as terminal:
        terminal.read_until("on 1 worker: training")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
    found = re.search(
        r"interrupted: this run goes on; for the rest: mlbench bench --name (\S+) steps "
        r"--workers=1 --repeats=1 --set steps=3000 --set rate=100",
        terminal.text,
    )
    assert found, terminal.text
    [run] = runs_of(found[1])
    assert run.active
    with mlbench.on_terminal(*arguments, "--name", found[1], columns=100) as again:
        again.read_until(rf"run {run.id} \({run.name}\) on 1 worker: training")
        client.stop_run(run.id).result()
        assert again.wait() == 1
    assert f"run {run.id} ({run.name}): STOPPED" in again.text
    assert [one.id for one in runs_of(found[1])] == [run.id]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("steps", "--workers", "1,99"), "99 workers want 99 cores, and this machine has "),
        (("steps", "--workers", "1,99", "--oversubscribe"), "num_workers: at most 16"),
        (
            ("steps", "--workers", "1,x"),
            "--workers 1,x: give numbers separated by",
        ),
        (("steps", "--name", "x" * 35), f"--name {'x' * 35}: it may have at most 34 characters"),
    ],
)
def test_an_impossible_set_is_refused_before_its_first_run(
    mlbench: Mlbench, client: ApiClient, arguments: tuple[str, ...], message: str
) -> None:
    before = client.get_runs().result().value
    done = mlbench("bench", *arguments)
    assert (done.code, done.out) == (2, "")
    assert f"mlbench: {message}" in done.err
    assert [run.id for run in client.get_runs().result().value] == [run.id for run in before]


_ONE, _TWO = PlannedRun("set-w1-r1", 1, 5), PlannedRun("set-w2-r1", 2, 5)
_ORDER = Order(title="digits", benchmark="digits", args={"epochs": "3"}, light_target=True)
_RULES: dict[str, list[object]] = {
    "learning_rate": [0.05],
    "exchange": ["ddp", "flat"],
    "batch_size": [],
}

_RUN = make_run(
    name="set-w2-r1",
    benchmark="digits",
    # With what the seed and the light goal say.
    args={"epochs": "3", "seed": "5", "goal": "90", "backend": "gloo"},
    backend="gloo",
    seed=5,
    light_target=True,
)


# --- Decisions: which runs a set has ---


def test_workers_are_numbers_from_few_to_many() -> None:
    assert read_workers("1,2,4") == [1, 2, 4]
    assert read_workers("4,1,4") == [1, 4]
    for text in ("", "1,", "1,0", "two", "-1", "1 2", "²"):
        with pytest.raises(UsageError, match="give numbers separated by commas"):
            read_workers(text)


def test_repeats_are_outermost_and_the_largest_comes_first() -> None:
    assert plan_runs("set", [1, 2], [5, 6]) == [
        PlannedRun("set-w2-r1", 2, 5),
        PlannedRun("set-w1-r1", 1, 5),
        PlannedRun("set-w2-r2", 2, 6),
        PlannedRun("set-w1-r2", 1, 6),
    ]


def test_a_set_is_as_large_as_can_be_compared_and_its_names_as_long_as_can_be() -> None:
    name = "x" * (40 - len("-w16-r10"))
    assert max(len(one.name) for one in plan_runs(name, [1, 16], [None] * 10)) == 40
    with pytest.raises(UsageError, match="at most 32 characters"):
        plan_runs(f"{name}x", [1, 16], [None] * 10)
    assert len(plan_runs("set", [1, 2], [None] * 100)) == 200
    with pytest.raises(UsageError, match="these are 202 runs; at most 200"):
        plan_runs("set", [1, 2], [None] * 101)


def test_each_repeat_has_the_next_seed_if_the_task_takes_one() -> None:
    digits = Benchmark("digits", "", takes_seed=True)
    steps = Benchmark("steps", "", takes_seed=False)
    assert [seed_of_repeat(digits, None, repeat) for repeat in range(3)] == [1, 2, 3]
    assert [seed_of_repeat(None, 7, repeat) for repeat in range(2)] == [7, 8]
    assert seed_of_repeat(steps, None, 1) is None
    with pytest.raises(UsageError, match="steps takes none"):
        seed_of_repeat(steps, 1, 0)


# --- Decisions: which of them exist ---


def test_finished_and_active_runs_are_not_run_again() -> None:
    failed = replace(_RUN, id=8, name="set-w1-r1", state="FAILED")
    assert find_earlier([_ONE, _TWO], [_RUN, failed]) == {_TWO: _RUN}
    going = replace(failed, id=9, state="STARTED")
    assert find_earlier([_ONE, _TWO], [_RUN, failed, going]) == {_ONE: going, _TWO: _RUN}


def test_a_run_of_the_same_shape_is_one_of_the_set() -> None:
    check_earlier({_TWO: _RUN}, _ORDER, _RULES)
    usual = replace(_RUN, args={**_RUN.args, "learning_rate": "0.05", "exchange": "ddp"})
    check_earlier({_TWO: usual}, _ORDER, _RULES)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_workers": 1}, "num_workers"),
        ({"seed": 6}, "seed"),
        ({"benchmark": "", "command": "train"}, "benchmark, command"),
        ({"deadline_seconds": 60.0}, "deadline_seconds"),
        ({"args": {"epochs": "4"}}, "option epochs"),
        ({"args": {}}, "option epochs"),
        ({"args": {"epochs": "3", "learning_rate": "0.1"}}, "option learning_rate"),
        ({"args": {"epochs": "3", "batch_size": "32"}}, "option batch_size"),
        ({"args": {"epochs": "3", "device": "cuda"}}, "option device"),
    ],
)
def test_a_run_of_another_shape_is_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError) as refusal:
        check_earlier({_TWO: replace(_RUN, **change)}, _ORDER, _RULES)
    assert str(refusal.value) == (
        f"run 7 (set-w2-r1) differs in {named}: choose another --name, or delete it"
    )
    with pytest.raises(UsageError, match="differs in backend:"):
        check_earlier({_TWO: _RUN}, replace(_ORDER, backend="mpi"), _RULES)
    strict = replace(_RUN, light_target=False)
    with pytest.raises(UsageError, match="differs in option goal:"):
        check_earlier({_TWO: strict}, replace(_ORDER, light_target=False), _RULES)


# --- Decisions: how long the rest takes ---


def test_the_time_left_is_what_others_with_as_many_workers_took() -> None:
    assert seconds_left([], [_ONE]) is None
    finished = [(_ONE, 10.0), (_ONE, 14.0), (_TWO, 6.0)]
    assert seconds_left(finished, [_ONE, _TWO, _TWO]) == 12.0 + 2 * 6.0
    assert seconds_left(finished, [PlannedRun("set-w4-r1", 4, 5)]) == 10.0
    assert seconds_left(finished, []) == 0
