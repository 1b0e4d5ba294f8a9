"""Cells of CSV files: no text begins a formula, and numbers stay numbers."""

import pytest

from mlbench.contract.csv_cells import escape_formula, escape_formula_value


@pytest.mark.parametrize("text", ["=1", "+1", "-a", "@SUM(1)", "\t=1", "\r=1", "\n=1"])
def test_a_formula_gets_a_quote_before_it(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "a=1", "1", "'=1", " =1"])
def test_all_else_stays(text: str) -> None:
    assert escape_formula(text) == escape_formula_value(text) == text


def test_of_values_numbers_stay_and_formulas_do_not() -> None:
    for number in ("-1.5", "+Inf", "-Inf", "+1e3", "NaN"):
        assert escape_formula_value(number) == number
    for formula in ("-1-1", "+cmd", "=1"):
        assert escape_formula_value(formula) == f"'{formula}"
