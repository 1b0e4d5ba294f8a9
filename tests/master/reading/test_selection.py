"""Fewer points of a series: averages, and the last ones."""

import numpy as np
import pytest

from mlbench.contract.series import number_or_text
from mlbench_master.reading import selection
from mlbench_master.reading.points import Series
from mlbench_master.reading.selection import Selection
from mlbench_master.recording.blocks import Note
from tests.support.reading import StoredPoint, points_of


def series_of(values: list[str], cumulative: bool | None = None) -> Series:
    """Return a series with a sample each 10 µs; values that are not numbers become texts."""
    read = [number_or_text(value) for value in values]
    texts = {i: Note(value) for i, value in enumerate(read) if isinstance(value, str)}
    notes = {i: texts.get(i, Note())._replace(cumulative=cumulative) for i in range(len(read))}
    numbers = [np.nan if isinstance(value, str) else value for value in read]
    return Series(
        np.arange(len(values), dtype=np.int64) * 10,
        np.array(numbers, np.float64),
        texts if cumulative is None else notes,
    )


def chosen(
    values: list[str],
    summarize: int | None = None,
    last_n: int | None = None,
    cumulative: bool | None = None,
) -> list[StoredPoint]:
    wanted = Selection(summarize=summarize, last_n=last_n)
    return points_of(wanted.points(series_of(values, cumulative)))


def texts(points: list[StoredPoint]) -> list[str]:
    return [point.value for point in points]


NUMBERS = [str(i) for i in range(10)]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 99])
def test_the_last_points_however_they_are_cut(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_CHUNK", size)
    for n in (1, 2, 9, 10, 11, 10**17):
        assert texts(chosen(NUMBERS, last_n=n)) == NUMBERS[-n:]


def test_points_after_since_up_to_until_are_selected() -> None:
    def between(after_us: int, until_us: int) -> list[str]:
        wanted = Selection(after_us, until_us)
        return texts(points_of(wanted.points(wanted.cut("a @ 0", series_of(NUMBERS)))))

    assert between(20, 40) == ["3", "4"]
    assert between(19, 39) == ["2", "3"]
    assert between(90, 100) == between(40, 40) == between(50, 30) == []
    assert between(-1, 10**18) == NUMBERS


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
def test_averages_have_the_time_of_the_first_point(at_most: int, expected: dict[int, str]) -> None:
    found = chosen(NUMBERS, summarize=at_most)
    assert {point.time_us: point.value for point in found} == expected


def test_texts_are_left_out_of_averages() -> None:
    found = chosen(["1", "x", "3", "y", "z", "8"], summarize=2)
    assert [point[:2] for point in found] == [(0, "2"), (30, "8")]


def test_a_summary_of_texts_is_the_last_one() -> None:
    found = chosen(["a", "b", "c", "d", "e"], summarize=3, cumulative=True)
    assert [point[:2] for point in found] == [(10, "b"), (30, "d"), (40, "e")]
    assert {point.note for point in found} == {Note(None, True)}


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
    [point] = chosen(values, summarize=1)
    assert point.value == mean


def spread(values: list[str], at_most: int) -> list[tuple[str | None, str | None]]:
    found = chosen(values, summarize=at_most)
    return [(point.note.minimum, point.note.maximum) for point in found]


def test_averages_report_their_range() -> None:
    spiky = ["1", "1", "1e9", "1", "-7", "2", "3"]
    assert spread(spiky, 2) == [("1", "1000000000"), ("-7", "3")]
    # The last of these stands for itself alone.
    assert spread(spiky, 4) == [("1", "1"), ("1", "1000000000"), ("-7", "2"), (None, None)]
    assert spread(spiky, 7) == [(None, None)] * 7


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["NaN", "2", "+Inf", "1", "-Inf"], ("1", "2")),
        (["NaN", "+Inf", "-Inf"], (None, None)),
        (["text", "5"], ("5", "5")),
        (["text", "other"], (None, None)),
    ],
)
def test_extremes_are_finite(values: list[str], expected: tuple[str | None, str | None]) -> None:
    assert spread(values, 1) == [expected]


def test_the_rank_of_names_is_known_if_it_is_the_same() -> None:
    assert Selection(names=("a @ 3", "b @ 3")).rank == "3"
    for names in ((), ("a",), ("a @ 3", "b"), ("a @ 3", "a @ 4")):
        assert not Selection(names=names).rank
