"""Points of a series are cut and merged without losing one, or what came along with it."""

import itertools
import random
from collections.abc import Iterator

from mlbench_master.reading.points import (
    Annotation,
    Chunks,
    Points,
    StoredPoint,
    from_points,
    join,
    merge,
)


def made(*rows: StoredPoint) -> Points:
    return from_points(rows)


def at(*times_us: int, value: str = "1") -> Points:
    return made(*(StoredPoint(time_us, value) for time_us in times_us))


def chunks(*parts: Points) -> Chunks:
    return iter(parts)


def rows(found: Iterator[Points]) -> list[StoredPoint]:
    return [point for chunk in found for point in chunk]


def test_between_leaves_out_the_first_time_and_not_the_last() -> None:
    assert at(1, 2, 2, 3, 4).between(1, 3).times_us == [2, 2, 3]
    assert not at(1, 2).between(2, 5)
    assert not at(1, 2).between(-5, 0)


def test_joined_points_of_one_time_keep_the_order_of_the_parts() -> None:
    joined = join(
        [
            made(StoredPoint(1, "a", Annotation(True)), StoredPoint(3, "c")),
            at(1, 2, 3, value="x"),
            Points((), ()),
        ]
    )
    assert [point[:2] for point in joined] == [(1, "a"), (1, "x"), (2, "x"), (3, "c"), (3, "x")]
    assert joined.annotations == {0: Annotation(True)}
    assert not join([])


def test_merging_is_sorting_however_the_points_are_cut() -> None:
    dice = random.Random(5)  # noqa: S311 - dice, not secrets
    for _ in range(200):
        sides = []
        for side in "ab":
            times = sorted(dice.randrange(20) for _ in range(dice.randrange(15)))
            whole = made(
                *(StoredPoint(t, side, Annotation(bool(t % 2), i)) for i, t in enumerate(times))
            )
            cuts = sorted({0, len(times), *(dice.randrange(len(times) + 1) for _ in range(3))})
            sides.append([whole.part(a, b) for a, b in itertools.pairwise(cuts)])
        points = rows(merge(*(chunks(*side) for side in sides)))
        every = [point for side in sides for chunk in side for point in chunk]
        assert points == sorted(every, key=lambda point: point[:2])


def test_merging_takes_no_more_than_it_needs() -> None:
    def endless() -> Chunks:
        for time_us in range(10**9):
            yield at(time_us)

    merged = merge(endless(), endless())
    assert [next(merged).times_us for _ in range(5)] == [[0], [0], [1], [1], [2]]
