"""CSV cells: texts that look like formulas are escaped, and numbers are unchanged."""

import pytest

from mlbench.contract.csv_cells import escape_formula, escape_formula_value


@pytest.mark.parametrize("text", ["=1", "+1", "-a", "@SUM(1)", "\t=1", "\r=1", "\n=1"])
def test_a_formula_is_prefixed_with_a_quote(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "a=1", "1", "'=1", " =1"])
def test_other_texts_are_unchanged(text: str) -> None:
    assert escape_formula(text) == escape_formula_value(text) == text


def test_numeric_values_are_unchanged() -> None:
    for number in ("-1.5", "+Inf", "-Inf", "+1e3", "NaN"):
        assert escape_formula_value(number) == number
    for formula in ("-1-1", "+cmd", "=1"):
        assert escape_formula_value(formula) == f"'{formula}"
