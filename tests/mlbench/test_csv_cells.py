"""Cells of CSV files: no text begins a formula, and numbers stay numbers."""

import pytest

from mlbench.csv_cells import harmless, harmless_value


@pytest.mark.parametrize("text", ["=1", "+1", "-a", "@SUM(1)", "\t=1", "\r=1", "\n=1"])
def test_what_would_begin_a_formula_has_a_quote_before_it(text: str) -> None:
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "a=1", "1", "'=1", " =1"])
def test_all_else_stays(text: str) -> None:
    assert harmless(text) == harmless_value(text) == text


@pytest.mark.parametrize("text", ["-1.5", "+Inf", "-Inf", "+1e3", "NaN"])
def test_numbers_stay(text: str) -> None:
    assert harmless_value(text) == text


@pytest.mark.parametrize("text", ["-1-1", "+cmd", "=1"])
def test_values_that_are_none_are_texts(text: str) -> None:
    assert harmless_value(text) == f"'{text}"
