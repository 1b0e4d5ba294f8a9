"""``compare/curves.js``: curves from each run's own start, by one of three clocks."""

from typing import Any

import pytest

from tests.web.js.conftest import Call

_MODULE = "js/compare/curves.js"
_OF_RECORDED = """(m, [series, axis]) => {
    const wide = ({ times, values }) => ({ times, values, lows: values, highs: values });
    const byMetric = Object.entries(series).map(([name, one]) => [name, new Map([[0, wide(one)]])]);
    return m.ofRecorded(new Map(byMetric), "train_loss", axis, "1970-01-01T00:00:10Z");
}"""
_SERIES = {
    "train_loss": {"times": [11_000, 12_000, 16_000], "values": [3, 2, 1]},
    "train_seconds": {"times": [11_000, 13_000, 15_000], "values": [0.5, 2.5, 2.5]},
    "step": {"times": [12_000, 16_000], "values": [10, 50]},
}


@pytest.mark.parametrize(
    ("axis", "x", "y"),
    [
        ("wall", [1, 2, 6], [3, 2, 1]),
        # Between two times that are known, training went on evenly.
        ("training", [0.5, 1.5, 2.5], [3, 2, 1]),
        # Before the first step, it is not known which one it is.
        ("step", [10, 50], [2, 1]),
    ],
)
def test_a_run_is_aligned_at_its_start(compute: Call, axis: str, x: object, y: object) -> None:
    found = compute(_MODULE, _OF_RECORDED, [_SERIES, axis])
    assert (found["x"], found["y"]) == (x, y)


def test_without_its_clock_there_is_no_curve(compute: Call) -> None:
    alone = {"train_loss": _SERIES["train_loss"]}
    assert compute(_MODULE, _OF_RECORDED, [alone, "training"])["x"] == []


def test_hidden_curves_are_empty_and_others_keep_their_look(compute: Call) -> None:
    results = [{"run_id": number, "name": f"r{number}"} for number in (1, 2)]
    columns = [{"x": [1], "y": [1]}, {"x": [2], "y": [2]}]
    lines: list[Any] = compute(
        _MODULE,
        "(m, [results, columns]) => m.toLines(results, columns, new Set([1]))",
        [results, columns],
    )
    assert [line["x"] for line in lines] == [[], [2]]
    assert [line["colour"] for line in lines] == ["--series-0", "--series-1"]


def test_each_goal_is_marked_once(compute: Call) -> None:
    target = {"metric": "val_Prec@1", "value": 97.0}
    results = [{"target": target}, {"target": target}, {"target": None}]
    marks = compute(_MODULE, "(m, results) => m.toMarks(results, 'val_Prec@1')", results)
    assert marks == [{"y": 97, "text": "goal 97 %"}]
