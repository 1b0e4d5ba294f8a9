"""``--sweep``: its form, and the order of a sweep's runs."""

import pytest

from mlbench.cli.common import UsageError
from mlbench.cli.sweep import plan_places, read_sweeps
from mlbench.records import Planned


def test_values_keep_their_order_and_spelling() -> None:
    found = read_sweeps(["exchange=flat,bucketed", "bandwidth=100,20"])
    assert found == {"exchange": ["flat", "bucketed"], "bandwidth": ["100", "20"]}
    assert [*found] == ["exchange", "bandwidth"]
    assert read_sweeps(["cpus=1,0.5"]) == {"cpus": ["1", "0.5"]}
    assert read_sweeps(None) == {}


def test_a_bandwidth_is_swept_in_mbit() -> None:
    values = read_sweeps(["bandwidth=none,20,0.5Mbit,40Mbit/s,2Gbit"])["bandwidth"]
    assert values == ["none", "20", "0.5", "40", "2000"]
    with pytest.raises(UsageError, match="--sweep bandwidth=20MB: '20MB' is not of the form"):
        read_sweeps(["bandwidth=20MB"])


@pytest.mark.parametrize(
    ("sweeps", "problem"),
    [
        (["exchange"], "--sweep exchange: it must be KEY=V1,V2"),
        (["exchange="], "--sweep exchange=: it must be KEY=V1,V2"),
        (["=1,2"], "it must be KEY=V1,V2"),
        (["rate=1,,2"], "it must be KEY=V1,V2"),
        (["rate=1,2,1"], "--sweep rate=1,2,1: give each value once"),
        (["rate=1", "rate=2"], "--sweep rate=2: rate is swept already"),
    ],
)
def test_another_form_is_refused(sweeps: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_sweeps(sweeps)


def test_own_code_has_no_options_to_sweep() -> None:
    assert read_sweeps(["latency=1ms,5ms"], is_own_code=True)
    with pytest.raises(UsageError, match="can be swept by bandwidth, latency, loss, cpus"):
        read_sweeps(["rate=1,2"], is_own_code=True)
    with pytest.raises(UsageError, match="--sweep cpus=1,x: 'x' is not of the form 2"):
        read_sweeps(["cpus=1,x"])


def test_each_repeat_runs_all_in_turn_and_the_next_one_backwards() -> None:
    assert plan_places([1, 2], [5, 6], {}) == [
        Planned(2, 5),
        Planned(1, 5),
        Planned(1, 6),
        Planned(2, 6),
    ]
    swept = {"exchange": ["a", "b"], "bandwidth": ["5", "20"]}
    places = plan_places([1], [1, 2, 3, 4], swept)
    repeats = [places[i : i + 4] for i in range(0, 16, 4)]
    orders = ["".join(("".join(run.swept.values()) + " ") for run in runs) for runs in repeats]
    assert orders == [
        "a5 a20 b5 b20 ",
        "b20 b5 a20 a5 ",
        "b5 b20 a5 a20 ",
        "a20 a5 b20 b5 ",
    ]
    assert [{run.seed for run in runs} for runs in repeats] == [{1}, {2}, {3}, {4}]
