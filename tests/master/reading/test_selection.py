"""Fewer points of a series: averages, and the last ones."""

from dataclasses import replace
from functools import partial

import pytest

from mlbench_master.reading.points import (
    Annotation,
    Chunks,
    Points,
    Reader,
    StoredPoint,
    from_points,
)
from mlbench_master.reading.selection import Selection


def cut(points: Points, size: int) -> Chunks:
    for start in range(0, len(points), size):
        yield points.part(start, start + size)


def reading(
    values: list[str], size: int = 3, cumulative: bool | None = None, *, are_numbers: bool = False
) -> Reader:
    points = from_points(
        StoredPoint(i * 10, value, Annotation(cumulative)) for i, value in enumerate(values)
    )
    return partial(cut, replace(points, are_numbers=are_numbers), size)


def chosen(
    read: Reader, summarize: int | None = None, last_n: int | None = None
) -> list[StoredPoint]:
    selection = Selection(summarize=summarize, last_n=last_n)
    return [point for chunk in selection.apply(read) for point in chunk]


def texts(points: list[StoredPoint]) -> list[str]:
    return [point.value for point in points]


NUMBERS = [str(i) for i in range(10)]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 99])
def test_the_last_points(size: int) -> None:
    for n in (1, 2, 9, 10, 11, 10**17):
        assert texts(chosen(reading(NUMBERS, size), last_n=n)) == NUMBERS[-n:]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 99])
@pytest.mark.parametrize(
    ("at_most", "expected"),
    [
        (1, {0: "4.5"}),
        (2, {0: "2", 50: "7"}),
        # Groups of four: the last one is smaller, and not lost.
        (3, {0: "1.5", 40: "5.5", 80: "8.5"}),
        (4, {0: "1", 30: "4", 60: "7", 90: "9"}),
        (9, {0: "0.5", 20: "2.5", 40: "4.5", 60: "6.5", 80: "8.5"}),
        (10, {i * 10: str(i) for i in range(10)}),
        (10**17, {i * 10: str(i) for i in range(10)}),
    ],
)
def test_averages_are_dated_as_the_first_of_their_points(
    at_most: int, expected: dict[int, str], size: int
) -> None:
    for are_numbers in (False, True):
        found = chosen(reading(NUMBERS, size, are_numbers=are_numbers), summarize=at_most)
        assert {point.time_us: point.value for point in found} == expected


def test_first_averages_then_the_last() -> None:
    assert texts(chosen(reading(NUMBERS), summarize=5, last_n=2)) == ["6.5", "8.5"]


def test_texts_are_left_out_of_averages() -> None:
    found = chosen(reading(["1", "x", "3", "y", "z", "8"]), summarize=2)
    assert [point[:2] for point in found] == [(0, "2"), (30, "8")]


def test_of_texts_alone_the_last_stands_for_all() -> None:
    found = chosen(reading(["a", "b", "c", "d", "e"], cumulative=True), summarize=3)
    assert found == [
        StoredPoint(us, text, Annotation(True)) for us, text in ((10, "b"), (30, "d"), (40, "e"))
    ]


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        (["0.1"] * 10, "0.1"),
        (["1e308", "1e308"], "1e+308"),
        (["+Inf", "1"], "+Inf"),
        (["-Inf", "+Inf"], "NaN"),
        (["NaN", "1"], "NaN"),
        (["1e-9", "3e-9"], "2e-09"),
    ],
)
def test_odd_numbers_are_averaged(values: list[str], mean: str) -> None:
    [point] = chosen(reading(values, 99), summarize=1)
    assert point.value == mean


def spread(values: list[str], at_most: int, size: int = 3) -> list[tuple[str | None, str | None]]:
    found = chosen(reading(values, size), summarize=at_most)
    return [(point.note.minimum, point.note.maximum) for point in found]


@pytest.mark.parametrize("size", [1, 2, 3, 99])
def test_averages_tell_what_they_hide(size: int) -> None:
    spiky = ["1", "1", "1e9", "1", "-7", "2", "3"]
    assert spread(spiky, 2, size) == [("1", "1000000000"), ("-7", "3")]
    # The last of these stands for itself alone.
    assert spread(spiky, 4, size) == [("1", "1"), ("1", "1000000000"), ("-7", "2"), (None, None)]
    assert spread(spiky, 7, size) == [(None, None)] * 7


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["NaN", "2", "+Inf", "1", "-Inf"], ("1", "2")),
        (["NaN", "+Inf", "-Inf"], (None, None)),
        (["text", "5"], ("5", "5")),
        (["text", "other"], (None, None)),
    ],
)
def test_the_extremes_are_those_of_the_finite_numbers(
    values: list[str], expected: tuple[str | None, str | None]
) -> None:
    assert spread(values, 1) == [expected]
