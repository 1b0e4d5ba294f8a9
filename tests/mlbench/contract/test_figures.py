"""Formatting of figures."""

import json
from pathlib import Path

import pytest

from mlbench.contract import figures
from mlbench.contract.records import Target

_DURATIONS = Path(__file__).parents[2] / "web" / "js" / "durations.json"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0.00"), (5.124, "5.12"), (52.31, "52.31"), (523.14, "523.1"), (5231.4, "5,231")),
        *((0.91324, "0.913"), (-0.0123, "-0.0123"), (0.00006944, "0.0000694")),
        *((1.2e-9, "1.20e-09"), (-3.4e38, "-3.40e+38")),
    ],
)
def test_a_number_has_up_to_four_significant_digits(value: float, text: str) -> None:
    assert figures.number(value) == text


def test_the_largest_number_determines_the_decimals_of_a_column() -> None:
    assert figures.column([1234.5, 0.123, None]) == ["1,234", "0", "-"]
    assert figures.column([12.3, 0.123, -4.0]) == ["12.30", "0.12", "-4.00"]
    assert figures.column([0.0005, 0.0, 0.00042]) == ["0.000500", "0.000000", "0.000420"]
    assert figures.column([1000, "text", None]) == ["1,000", "text", "-"]


@pytest.mark.parametrize(("value", "text"), json.loads(_DURATIONS.read_text()))
def test_a_duration_is_written_as_on_the_web_pages(value: float, text: str) -> None:
    assert figures.seconds(value) == text


def test_shares_and_targets_have_their_units_and_unknown_figures_are_a_dash() -> None:
    assert figures.seconds(None) == "-"
    assert (figures.percent(0.2672), figures.percent(None)) == ("26.7 %", "-")
    assert figures.target(Target("acc", 97.0)) == "Accuracy ≥ 97"
    assert figures.target(Target("loss", 0.25, lower_is_better=True)) == "Loss ≤ 0.25"
