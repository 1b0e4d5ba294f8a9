"""How figures are spelled."""

import pytest

from mlbench.records import Goal
from mlbench.report import figures


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (5.124, "5.12"),
        (52.31, "52.31"),
        (523.14, "523.1"),
        (5231.4, "5,231"),
        (0.91324, "0.913"),
        (-0.0123, "-0.0123"),
        (0.00006944, "0.0000694"),
        (1.2e-9, "1.20e-09"),
        (-3.4e38, "-3.40e+38"),
    ],
)
def test_a_number_has_four_digits_that_mean_something(value: float, text: str) -> None:
    assert figures.number(value) == text


def test_a_column_has_as_many_decimals_as_its_largest_number() -> None:
    assert figures.column([1234.5, 0.123, None]) == ["1,234", "0", "-"]
    assert figures.column([12.3, 0.123, -4.0]) == ["12.30", "0.12", "-4.00"]
    assert figures.column([0.0005, 0.0, 0.00042]) == ["0.000500", "0.000000", "0.000420"]
    assert figures.column([1000, "text", None]) == ["1,000", "text", "-"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (5.124, "5.12 s"),
        (59.4, "59.40 s"),
        (59.6, "1 min 00 s"),
        (125.0, "2 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7200.0, "2 h 00 min"),
        (100000.0, "27 h 47 min"),
    ],
)
def test_a_time_has_its_largest_units(value: float | None, text: str) -> None:
    assert figures.seconds(value) == text


def test_shares_goals_and_sizes_have_their_units() -> None:
    assert (figures.percent(0.2672), figures.percent(None)) == ("26.7 %", "-")
    assert figures.goal(Goal("acc", 97.0)) == "acc ≥ 97"
    assert figures.goal(Goal("loss", 0.25, lower_is_better=True)) == "loss ≤ 0.25"
    assert figures.bytes_of_memory(8 * 2**30) == "8.0 GiB"
