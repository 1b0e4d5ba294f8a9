"""``run/rates.js``: how many samples a second all ranks train together."""

from typing import Any

from tests.web.js.conftest import Call

_THROUGHPUT = """(m, [samples, clocks]) => m.throughput(
    new Map(samples.map((one, rank) => [rank, one])),
    new Map(clocks.map((one, rank) => [rank, one])))"""


def _throughput(compute: Call, samples: list[Any], clocks: list[Any]) -> Any:
    return compute("js/run/rates.js", _THROUGHPUT, [samples, clocks])


def _series(times: list[int], values: list[float]) -> dict[str, Any]:
    return {"times": times, "values": values, "lows": values, "highs": values}


def test_by_time_itself_where_no_training_time_is_known(compute: Call) -> None:
    samples = _series([0, 1000, 3000], [0, 50, 250])
    expected = {"times": [0, 1000, 3000], "values": [50, 100, 100]}
    assert _throughput(compute, [samples], []) == expected


def test_what_is_no_training_does_not_count(compute: Call) -> None:
    samples = _series([0, 10_000], [0, 100])
    clock = _series([0, 10_000], [0, 2])
    assert _throughput(compute, [samples], [clock])["values"] == [50, 50]


def test_ranks_are_summed_up(compute: Call) -> None:
    first, second = _series([0, 1000, 2000], [0, 10, 20]), _series([0, 2000], [0, 200])
    assert _throughput(compute, [first, second], [])["values"] == [110, 110, 110]


def test_a_restart_is_no_progress(compute: Call) -> None:
    samples = _series([0, 1000, 2000, 3000], [0, 100, 30, 80])
    expected = {"times": [0, 2000, 3000], "values": [100, 50, 50]}
    assert _throughput(compute, [samples], []) == expected


def test_one_total_tells_no_rate(compute: Call) -> None:
    assert _throughput(compute, [_series([0], [5])], []) == {"times": [], "values": []}
    assert _throughput(compute, [], []) == {"times": [], "values": []}
