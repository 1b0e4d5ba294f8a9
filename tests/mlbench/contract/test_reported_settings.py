"""Settings and targets reported by a task."""

import math

import pytest

from mlbench.contract.reported_settings import check_settings, reaches


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"learning_rate": 0.1, "epochs": 3, "compile": False, "folder": None, "device": "cpu"},
        {"ü" * 200: "ü" * 1024},
        {f"a{i}": i for i in range(500)},
        {"least": -(2**63), "most": 2**63 - 1},
    ],
    ids=["none", "each type", "longest", "most", "integers"],
)
def test_valid_settings_are_accepted(settings: object) -> None:
    check_settings(settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (None, "map names to values"),
        ([["a", 1]], "map names to values"),
        ({f"a{i}": i for i in range(501)}, r"at most 500 settings \(not 501\)"),
        *(({name: 1}, "name of a setting") for name in ("", 1, "a" * 201, "a\0")),
        ({"a": "a" * 1025}, "'a' must be a string of at most 1024"),
        *(({"a": number}, "finite") for number in (math.nan, -math.inf)),
        *(({"a": text}, "'a' must be") for text in ("nul \0", "\ud800", b"1")),
        *(({"fine": 1, "a": value}, "'a' must be") for value in (2**63, [1], {"b": 1})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_settings_are_refused(settings: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_settings(settings)


@pytest.mark.parametrize(
    ("value", "higher", "lower"),
    [
        *((96.9, False, True), (97.0, True, True), (97.1, True, False)),
        *((value, False, False) for value in (math.nan, math.inf, -math.inf)),
    ],
)
def test_an_equal_value_reaches_the_target(value: float, higher: bool, lower: bool) -> None:
    assert reaches(value, 97.0, lower_is_better=False) is higher
    assert reaches(value, 97.0, lower_is_better=True) is lower
