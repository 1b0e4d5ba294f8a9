"""``run/curves.js``: which ranks are drawn, along which axis, in which charts."""

from typing import Any

import pytest

from tests.web.js.conftest import Call

_MODULE = "js/run/curves.js"


def _series(times: list[int], values: list[float], **columns: list[float]) -> dict[str, Any]:
    return {"times": times, "values": values, "lows": values, "highs": values, **columns}


@pytest.mark.parametrize(
    ("metrics", "goal", "charts"),
    [
        ([], None, {}),
        (["step", "train_seconds", "data_seconds"], None, {}),
        (
            ["val_global_loss", "train_loss", "train_Prec@1", "train_Prec@5", "step"],
            "train_Prec@1",
            {"Loss": ["train_loss", "val_global_loss"], "Accuracy": ["train_Prec@1"]},
        ),
        (["train_Prec@1", "train_Prec@5"], "train_Prec@5", {"Accuracy": ["train_Prec@5"]}),
        (["val_global_R2"], None, {"R²": ["val_global_R2"]}),
        (["reward"], "reward", {"reward": ["reward"]}),
        (["reward"], "score", {}),
    ],
)
def test_which_charts_there_are(
    compute: Call, metrics: list[str], goal: str | None, charts: dict[str, list[str]]
) -> None:
    found = compute(_MODULE, "(m, [metrics, goal]) => m.chartsOf(metrics, goal)", [metrics, goal])
    assert {chart["title"]: chart["metrics"] for chart in found} == charts


def test_ranks_are_joined_where_they_are_near(compute: Call) -> None:
    first = _series([0, 10, 20, 30], [1, 1, 1, 1])
    # A moment later, and without an end.
    second = _series([1, 11], [3, 5], lows=[2, 4], highs=[4, 9])
    joined = compute(_MODULE, "(m, [a, b]) => m.combine(a, [a, b], m.mean)", [first, second])
    assert joined == {
        "times": [0, 10, 20, 30],
        "values": [2, 3, 3, 1],
        "lows": [1, 1, 1, 1],
        "highs": [4, 9, 9, 1],
    }


def test_what_is_no_number_is_left_out_of_the_mean(compute: Call) -> None:
    join = """(m, [a, b]) => {
        b.values[1] = NaN;
        return m.combine(a, [b], m.sum).values.map(String);
    }"""
    given = [_series([0, 10, 20], [1, 1, 1]), _series([0, 10, 20], [7, 8, 9])]
    assert compute(_MODULE, join, given) == ["7", "NaN", "9"]


@pytest.mark.parametrize(
    ("columns", "are_same"),
    [
        ([[1, 2], [1, 2]], True),
        ([[1, 2, 3], [1, 2]], True),
        ([[1, 2, 3, 4], [1, 2]], False),
        ([[1, 2], [1, 3]], False),
    ],
)
def test_ranks_that_recorded_the_same(
    compute: Call, columns: list[list[float]], are_same: bool
) -> None:
    given = [_series(list(range(len(values))), values) for values in columns]
    assert compute(_MODULE, "(m, all) => m.areSame(all)", given) is are_same


def test_a_counter_between_its_points(compute: Call) -> None:
    counter = _series([10, 20, 30, 40], [0, 0, 0, 0], lows=[100, 200, 5, 15])
    found = compute(
        _MODULE,
        "(m, [counter, times]) => m.counterAt(counter, times).map(String)",
        [counter, [5, 10, 15, 20, 25, 35, 99]],
    )
    # At 30 it began anew.
    assert found == ["NaN", "100", "150", "200", "200", "10", "15"]


@pytest.mark.parametrize(
    ("seconds", "unit", "place"),
    [(299, "seconds", 60), (300, "minutes", 1), (3 * 3600, "hours", 1 / 60)],
)
def test_the_unit_of_time_suits_the_length(
    compute: Call, seconds: int, unit: str, place: float
) -> None:
    axis = """(m, seconds) => {
        const { title, place } = m.timeAxis("1970-01-01T00:00:10Z", 10_000 + 1000 * seconds);
        return [title, place([70_000])[0]];
    }"""
    title, at = compute(_MODULE, axis, seconds)
    assert title == f"Time since the start ({unit})"
    assert at == pytest.approx(place)


def test_no_line_leads_from_attempt_to_attempt(compute: Call) -> None:
    cut = """(m, [series, moments]) => {
        const { times, values } = m.withGaps(series, moments);
        return [times, values.map(String)];
    }"""
    series = _series([1, 2, 3, 4], [10, 20, 30, 40])
    # Before the first point there is nothing to part, nor after the last.
    assert compute(_MODULE, cut, [series, [0, 3, 4, 99]]) == [
        [1, 2, 3, 3, 4, 4],
        ["10", "20", "NaN", "30", "NaN", "40"],
    ]
    assert compute(_MODULE, cut, [series, []]) == [[1, 2, 3, 4], ["10", "20", "30", "40"]]
