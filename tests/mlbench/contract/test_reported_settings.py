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
        ({"": 1}, "name of a setting"),
        ({1: 1}, "name of a setting"),
        ({"a" * 201: 1}, "name of a setting"),
        ({"a\0": 1}, "name of a setting"),
        ({"a": "a" * 1025}, "'a' must be a string of at most 1024"),
        ({"a": "nul \0"}, "'a' must be"),
        ({"a": "\ud800"}, "'a' must be"),
        ({"a": float("nan")}, "finite"),
        ({"a": float("-inf")}, "finite"),
        ({"a": 2**63}, "'a' must be"),
        ({"fine": 1, "a": [1]}, "'a' must be"),
        ({"a": {}}, "'a' must be"),
        ({"a": b"1"}, "'a' must be"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_settings_are_refused(settings: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_settings(settings)


@pytest.mark.parametrize(
    ("value", "higher", "lower"),
    [
        (96.9, False, True),
        (97.0, True, True),
        (97.1, True, False),
        (math.nan, False, False),
        (math.inf, False, False),
        (-math.inf, False, False),
    ],
)
def test_an_equal_value_reaches_the_target(value: float, higher: bool, lower: bool) -> None:
    assert reaches(value, 97.0, lower_is_better=False) is higher
    assert reaches(value, 97.0, lower_is_better=True) is lower
