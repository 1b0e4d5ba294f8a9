"""``sparkline.js``: a small curve as SVG."""

import pytest

from tests.web.js.conftest import Call

_MODULE = "js/sparkline.js"
_FRAME = {"from": 0, "to": 100, "top": 10, "label": "CPU"}
_TO_PATH = """({ toPath }, [times, values, frame]) =>
    toPath({ times, values: values.map((value) => value ?? NaN) }, frame)"""


def test_the_curve_spans_the_frame(compute: Call) -> None:
    path = compute(_MODULE, _TO_PATH, [[0, 50, 100], [0, 5, 10], _FRAME])
    assert path == {
        "line": "M0.0 27.0L60.0 14.5L120.0 2.0",
        "area": "M0.0 27.0L60.0 14.5L120.0 2.0L120.0 28L0.0 28Z",
    }


def test_what_is_outside_is_left_out_or_cut_off(compute: Call) -> None:
    path = compute(_MODULE, _TO_PATH, [[-1, 0, 50, 100, 101], [1, -5, 99, 0, 1], _FRAME])
    assert path["line"] == "M0.0 27.0L60.0 2.0L120.0 27.0"


@pytest.mark.parametrize("values", [[], [5], [5, None], [None, None]])
def test_fewer_than_two_numbers_are_no_curve(compute: Call, values: list[float | None]) -> None:
    path = compute(_MODULE, _TO_PATH, [[10, 20][: len(values)], values, _FRAME])
    assert path == {"line": "", "area": ""}


def test_what_stands_still_at_zero_is_at_the_bottom(compute: Call) -> None:
    path = compute(_MODULE, _TO_PATH, [[0, 100], [0, 0], {**_FRAME, "top": 0}])
    assert path["line"] == "M0.0 27.0L120.0 27.0"


def test_it_says_in_words_what_it_shows(compute: Call) -> None:
    script = """({ sparkline, drawSparkline }, frame) => {
        const element = sparkline();
        drawSparkline(element, { times: [0, 100], values: [1, 2] }, frame);
        return [element.getAttribute("role"), element.getAttribute("aria-label")];
    }"""
    assert compute(_MODULE, script, _FRAME) == ["img", "CPU"]
