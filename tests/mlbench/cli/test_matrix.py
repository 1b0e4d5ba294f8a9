"""A benchmark set: its runs, which of them there are, and how long the rest takes."""

from dataclasses import replace
from typing import Any

import pytest

from mlbench.cli.common import WrongCallError
from mlbench.cli.matrix import (
    Cell,
    cells,
    check_earlier,
    find_earlier,
    longest_suffix,
    read_workers,
    seconds_left,
)
from mlbench.cli.ordering import Code, Order
from mlbench.client import Run

_ONE, _TWO = Cell("set-w1-r1", 1, 5), Cell("set-w2-r1", 2, 5)
_ORDER = Order(Code("digits", benchmark="digits"), args={"epochs": "3"}, light=True)
_RULES: dict[str, list[object]] = {
    "learning_rate": [0.05],
    "exchange": ["ddp", "flat"],
    "batch_size": [],
}

_RUN = Run(
    id=7,
    name="set-w2-r1",
    state="FINISHED",
    reason="",
    num_workers=2,
    attempt=1,
    created_at="2018-08-03T09:21:29.347000Z",
    started_at=None,
    finished_at=None,
    goal=None,
    delivery=None,
    ranks=(),
    benchmark="digits",
    # With what the seed and the light goal say.
    args={"epochs": "3", "seed": "5", "goal": "90", "backend": "gloo"},
    backend="gloo",
    seed=5,
    gpu_enabled=False,
    light_target=True,
)


# --- the cells ---


def test_workers_are_numbers_from_few_to_many() -> None:
    assert read_workers("1,2,4") == [1, 2, 4]
    assert read_workers("4,1,4") == [1, 4]


@pytest.mark.parametrize("text", ["", "1,", "1,0", "two", "-1", "1 2", "²"])
def test_what_are_no_workers_is_refused(text: str) -> None:
    with pytest.raises(WrongCallError, match="it must be numbers such as 1,2,4"):
        read_workers(text)


def test_repeats_are_outermost_and_the_largest_comes_first() -> None:
    assert cells("set", [1, 2], [5, 6]) == [
        Cell("set-w2-r1", 2, 5),
        Cell("set-w1-r1", 1, 5),
        Cell("set-w2-r2", 2, 6),
        Cell("set-w1-r2", 1, 6),
    ]


def test_names_have_room_for_what_is_added() -> None:
    suffix = longest_suffix([1, 16], 10)
    assert suffix == len("-w16-r10")
    name = "x" * (40 - suffix)
    assert max(len(cell.name) for cell in cells(name, [1, 16], [None] * 10)) == 40
    with pytest.raises(WrongCallError, match="at most 32 characters"):
        cells(f"{name}x", [1, 16], [None] * 10)


def test_a_set_can_be_compared() -> None:
    assert len(cells("set", [1, 2], [None] * 100)) == 200
    with pytest.raises(WrongCallError, match="that is 202 runs; at most 200"):
        cells("set", [1, 2], [None] * 101)


# --- earlier runs ---


def test_finished_and_active_runs_are_not_run_again() -> None:
    failed = replace(_RUN, id=8, name="set-w1-r1", state="FAILED")
    assert find_earlier([_ONE, _TWO], [_RUN, failed]) == {_TWO: _RUN}
    going = replace(failed, id=9, state="STARTED")
    assert find_earlier([_ONE, _TWO], [_RUN, failed, going]) == {_ONE: going, _TWO: _RUN}


def test_of_runs_with_one_name_the_newest_counts() -> None:
    failed = replace(_RUN, id=8, state="FAILED")
    assert find_earlier([_TWO], [_RUN, failed]) == {}


def test_a_run_of_the_same_shape_is_one_of_the_set() -> None:
    check_earlier({_TWO: _RUN}, _ORDER, _RULES)
    usual = replace(_RUN, args={**_RUN.args, "learning_rate": "0.05", "exchange": "ddp"})
    check_earlier({_TWO: usual}, _ORDER, _RULES)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_workers": 1}, "num_workers"),
        ({"num_cpus": 0.5}, "num_cpus"),
        ({"max_bandwidth": 20.0}, "max_bandwidth"),
        ({"seed": 6}, "seed"),
        ({"benchmark": "", "command": "train"}, "benchmark, command"),
        ({"working_dir": "/somewhere"}, "working_dir"),
        ({"light_target": False}, "light_target"),
        ({"gpu_enabled": True}, "gpu_enabled"),
        ({"deadline_seconds": 60.0}, "deadline_seconds"),
        ({"args": {"epochs": "4"}}, "option epochs"),
        ({"args": {}}, "option epochs"),
        ({"args": {"epochs": "3", "learning_rate": "0.1"}}, "option learning_rate"),
        ({"args": {"epochs": "3", "exchange": "flat"}}, "option exchange"),
        ({"args": {"epochs": "3", "batch_size": "32"}}, "option batch_size"),
        ({"args": {"epochs": "3", "device": "cuda"}}, "option device"),
    ],
)
def test_a_run_of_another_shape_is_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(WrongCallError) as refusal:
        check_earlier({_TWO: replace(_RUN, **change)}, _ORDER, _RULES)
    assert str(refusal.value) == (
        f"run 7 (set-w2-r1) differs in {named}: choose another --name, or delete it"
    )


def test_another_backend_or_goal_is_another_shape() -> None:
    with pytest.raises(WrongCallError, match="differs in backend:"):
        check_earlier({_TWO: _RUN}, replace(_ORDER, backend="mpi"), _RULES)
    strict = replace(_RUN, light_target=False)
    with pytest.raises(WrongCallError, match="differs in option goal:"):
        check_earlier({_TWO: strict}, replace(_ORDER, light=False), _RULES)


# --- time ---


def test_the_time_left_is_what_others_with_as_many_workers_took() -> None:
    assert seconds_left([], [_ONE]) is None
    finished = [(_ONE, 10.0), (_ONE, 14.0), (_TWO, 6.0)]
    assert seconds_left(finished, [_ONE, _TWO, _TWO]) == 12.0 + 2 * 6.0
    assert seconds_left(finished, [Cell("set-w4-r1", 4, 5)]) == 10.0
    assert seconds_left(finished, []) == 0
