"""A goal is reached by what is as good, in its own direction."""

import math

import pytest

from mlbench.goal import reaches


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
def test_as_good_is_good_enough(value: float, higher: bool, lower: bool) -> None:
    assert reaches(value, 97.0, lower_is_better=False) is higher
    assert reaches(value, 97.0, lower_is_better=True) is lower
