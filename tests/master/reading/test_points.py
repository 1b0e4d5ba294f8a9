"""Series are merged without losing a sample, or what came along with it."""

import numpy as np

from mlbench_master.reading.points import Series, merge, to_points
from mlbench_master.recording.blocks import Note


def test_merged_samples_of_one_time_keep_the_order_of_the_parts() -> None:
    first = Series(np.array([1, 3]), np.array([10.0, np.nan]), {0: Note(None, True), 1: Note("c")})
    second = Series(np.array([1, 2, 3]), np.array([20.0, 21.0, 22.0]))
    points = to_points(merge([first, second]))
    found = [*zip(points.times_us.tolist(), points.values, strict=True)]
    assert found == [(1, "10"), (1, "20"), (2, "21"), (3, "c"), (3, "22")]
    assert points.notes == {0: Note(None, True)}
