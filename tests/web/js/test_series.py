"""``series.js``: the API's series as columns, and what is computed from them."""

from tests.web.js.conftest import Call

_MODULE = "js/series.js"
# NaN and the infinities have no JSON; a text of each value has.
_TEXTS = """(series) => Object.fromEntries(
    Object.entries(series).map(([name, column]) => [name, column.map(String)]))"""


def test_points_become_columns(compute: Call) -> None:
    points = [
        {"date": "1970-01-01T00:00:01.000000Z", "value": "0.5", "min": "0.25", "max": "NaN"},
        {"date": "1970-01-01T00:00:02.500000Z", "value": "+Inf"},
        {"date": "1970-01-01T00:00:03.000000Z", "value": "-Inf"},
        {"date": "1970-01-01T00:00:04.000000Z", "value": "seven"},
        {"date": "1970-01-01T00:00:05.000000Z", "value": ""},
    ]
    assert compute(_MODULE, f"(m, points) => ({_TEXTS})(m.toSeries(points))", points) == {
        "times": ["1000", "2500", "3000", "4000", "5000"],
        "values": ["0.5", "Infinity", "-Infinity", "NaN", "NaN"],
        "lows": ["0.25", "Infinity", "-Infinity", "NaN", "NaN"],
        "highs": ["NaN", "Infinity", "-Infinity", "NaN", "NaN"],
    }


def _columns(times: list[int], values: list[float]) -> dict[str, list[float]]:
    return {"times": list(times), "values": values, "lows": values, "highs": values}


def test_what_comes_later_is_appended(compute: Call) -> None:
    first, second = _columns([1, 2, 3], [10, 20, 30]), _columns([2, 3, 4, 5], [0, 0, 40, 50])
    joined = compute(_MODULE, "(m, [a, b]) => m.append(a, b)", [first, second])
    assert joined == _columns([1, 2, 3, 4, 5], [10, 20, 30, 40, 50])


def test_what_is_there_already_is_not_appended(compute: Call) -> None:
    first, old = _columns([1, 2], [1, 2]), _columns([2], [9])
    assert compute(_MODULE, "(m, [a, b]) => m.append(a, b)", [first, old]) == first
    empty = _columns([], [])
    assert compute(_MODULE, "(m, [a, b]) => m.append(a, b)", [empty, first]) == first
    assert compute(_MODULE, "(m, [a, b]) => m.append(a, b)", [first, empty]) == first


def test_a_counter_grows_per_second_also_after_it_began_anew(compute: Call) -> None:
    counter = _columns([1000, 2000, 4000, 5000], [10, 20, 60, 5])
    grown = compute(_MODULE, "(m, counter) => m.rate(counter)", counter)
    assert grown == _columns([2000, 4000, 5000], [10, 20, 5])


def test_a_counter_of_one_value_has_no_growth(compute: Call) -> None:
    assert compute(_MODULE, "(m, c) => m.rate(c)", _columns([1], [1])) == _columns([], [])


def test_names_are_split_into_metric_and_rank(compute: Call) -> None:
    names = ["train_loss @ 0", "epoch", "a @ b @ 12", "odd @ ", "two\nlines @ 3"]
    assert compute(_MODULE, "(m, names) => names.map(m.splitName)", names) == [
        {"metric": "train_loss", "rank": 0},
        {"metric": "epoch", "rank": None},
        {"metric": "a @ b", "rank": 12},
        {"metric": "odd @ ", "rank": None},
        {"metric": "two\nlines", "rank": 3},
    ]


def test_an_answer_is_sorted_by_metric_and_rank(compute: Call) -> None:
    point = {"date": "1970-01-01T00:00:01.000000Z", "value": "1"}
    answer = {"loss @ 0": [point], "loss @ 1": [point, point], "epoch": []}
    lengths = """(m, answer) => [...m.byMetric(answer)].map(
        ([metric, ranks]) => [metric, [...ranks].map(([rank, s]) => [rank, s.values.length])])"""
    assert compute(_MODULE, lengths, answer) == [
        ["loss", [[0, 1], [1, 2]]],
        ["epoch", [[None, 0]]],
    ]


def test_a_clock_goes_on_evenly_between_the_times_it_is_told(compute: Call) -> None:
    # At the end it fell back, as a run does that goes on from a checkpoint.
    clock = _columns([10, 20, 30, 40], [0, 5, 5, 2])
    found = compute(
        _MODULE,
        "(m, [c, times]) => m.between(c, times).map(String)",
        [clock, [5, 10, 16, 25, 36, 40, 99]],
    )
    assert found == ["NaN", "0", "3", "5", "5", "2", "2"]
