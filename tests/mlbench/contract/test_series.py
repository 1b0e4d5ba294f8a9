"""Series names, and parsing and formatting of values."""

import math

import pytest

from mlbench.contract.series import format_value, number_or_text, series_name, split_name


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        *((1, 1.0), (0.25, 0.25), ("0.1", 0.1), ("1e-7", 1e-7), ("-0.0", -0.0)),
        *(("Infinity", math.inf), ("-inf", -math.inf), ("0e-400", 0.0), (2**60, 2.0**60)),
        ("0.1000000000000000055511151231257827", 0.1),
        ("0" * 5_000 + "1", 1.0),
        *((value, str(value)) for value in (10**400, 2**53 + 1, -(2**53) - 1)),
        # float() accepts some of the last texts, but nobody means them as numbers.
        *((text, text) for text in ("", "best so far", "1e400", "-1e400", "1e-400", "1" * 5_001)),
        *((text, text) for text in ("-" + "0" * 5_000 + "9007199254740993", "1_000", " 1", "1\n")),
        ("\u0663", "\u0663"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_numeric_texts_are_numbers(value: object, meant: float | str) -> None:
    assert repr(number_or_text(value)) == repr(meant)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((200.0, "200"), (0.1, "0.1"), (1e-6, "0.000001"), (1e-7, "1e-07")),
        *((1e20, "1" + "0" * 20), (-1.5e21, "-1.5e+21"), (0.0, "0"), (-0.0, "-0")),
        *((math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "-Inf"), ("a text", "a text")),
        (0.30000000000000004, "0.30000000000000004"),
    ],
)
def test_values_are_formatted_like_prometheus(value: float | str, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("train_loss @ 0", ("train_loss", "0")), ("Prec@1 @ 12", ("Prec@1", "12"))),
        *(("Prec@1", ("Prec@1", "")), ("a @ 1 @ 2", ("a @ 1", "2")), ("a @ b", ("a @ b", ""))),
        *((" @ 1", (" @ 1", "")), ("a @ ", ("a @ ", ""))),
    ],
)
def test_series_names_are_split_and_joined(name: str, key: tuple[str, str]) -> None:
    assert split_name(name) == key
    assert series_name(*key) == name
