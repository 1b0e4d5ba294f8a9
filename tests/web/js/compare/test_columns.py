"""``compare/columns.js``: figures whose digits stand below each other."""

import pytest

from tests.web.js.conftest import Call

_NONE = "\N{EN DASH}"
_WRITE = "(m, values) => { const write = m.%s(values); return values.map(write); }"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([98.626, 7, None], ["98.63", "7.00", _NONE]),
        ([6467.7, 482.25], ["6,468", "482"]),
        ([0.0581, 0.4], ["0.058", "0.400"]),
        ([0.00001], ["1.000e-5"]),
        ([], []),
    ],
)
def test_numbers(compute: Call, values: list[float | None], texts: list[str]) -> None:
    assert compute("js/compare/columns.js", _WRITE % "numbers", values) == texts


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([35.07, 2.5, None], ["35.07 s", "2.50 s", _NONE]),
        ([125, 2.5], ["2 min 05 s", "2.5 s"]),
        ([0.25], ["250 ms"]),
    ],
)
def test_durations(compute: Call, values: list[float | None], texts: list[str]) -> None:
    assert compute("js/compare/columns.js", _WRITE % "durations", values) == texts
