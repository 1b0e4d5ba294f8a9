"""Series as columns of numbers, rank by rank."""

import math
from collections.abc import Iterator

from master.reading.points import Points
from master.results.columns import by_rank, finite_by_rank, to_columns
from tests.master.results.making import columns


def test_texts_are_left_out_and_numbers_are_read_as_they_were_recorded() -> None:
    def series() -> Iterator[tuple[str, Iterator[Points]]]:
        yield "acc @ 0", iter([Points([1, 2], ["90", "diverged"]), Points([3], ["9.7e1"])])
        yield "note", iter([Points([1], ["text"])])
        # What Python would take for a number, and nobody else.
        yield "odd", iter([Points([1, 2, 3, 4], ["1_000", "1e999", "NaN", "+Inf"])])

    found = to_columns(series())
    assert set(found) == {("acc", "0"), ("odd", "")}
    assert list(found["acc", "0"].times_us) == [1, 3]
    assert list(found["acc", "0"].values) == [90.0, 97.0]
    assert list(found["odd", ""].times_us) == [3, 4]
    assert math.isnan(found["odd", ""].values[0])
    assert found["odd", ""].values[1] == math.inf


def test_ranks_are_in_order_of_their_numbers() -> None:
    found = columns(acc_10={1: 1}, acc_2={1: 1}, acc={1: 1}, acc_0={1: 1}, other_1={1: 1})
    assert list(by_rank(found, "acc")) == ["", "0", "2", "10"]
    assert list(by_rank(found, "acc @ 2")) == ["2"]
    assert by_rank(found, "absent") == {}


def test_what_is_not_finite_is_left_out() -> None:
    found = columns(acc_0={1: math.nan, 2: 5, 3: math.inf}, acc_1={1: math.nan}, acc_2={1: 7})
    finite = finite_by_rank(found, "acc")
    assert {rank: list(one.values) for rank, one in finite.items()} == {"0": [5.0], "2": [7.0]}
