"""Reference convergence points: the examples of MLPerf's rules ("Appendix: RCP Examples")."""

import pytest
import scipy  # its parts are loaded when they are used

from mlbench.evaluation.convergence import Point, find, prune
from mlbench.evaluation.intervals import t_quantile
from mlbench.evaluation.scoring import mean_of_runs
from tests.support.known import known

# Benchmark A, of which a submission has 5 runs.
SMALL = Point.of(128, [16, 14, 16, 17, 16, 16, 15, 16, 15, 16])
LARGE = Point.of(256, [20, 21, 21, 20, 22, 22, 21, 21, 20, 20])
COUNTED = 3


@pytest.mark.parametrize(
    ("point", "mean", "deviation", "least", "speedup"),
    [(SMALL, 15.75, 0.43, 15.21, 0.0353), (LARGE, 20.75, 0.66, 19.93, 0.0412)],
)
def test_the_least_epochs_that_a_reference_allows(
    point: Point, mean: float, deviation: float, least: float, speedup: float
) -> None:
    assert (point.mean, round(point.deviation, 2)) == (mean, deviation)
    found = point.least_epochs(COUNTED)
    assert (round(found, 2), round(point.mean / found - 1, 4)) == (least, speedup)


def passes(batch_size: int, epochs: list[float]) -> bool:
    point = known(find([LARGE, SMALL], batch_size))
    return mean_of_runs(epochs) >= point.least_epochs(COUNTED)


def test_submissions_pass_or_fail() -> None:
    assert passes(128, [15, 15, 15, 16, 16]), "S1"
    assert not passes(256, [19, 19, 19, 20, 21]), "S2"
    assert passes(192, [17, 18, 18, 18, 20]), "S3"
    assert find([SMALL, LARGE], 512) is None, "S4"
    assert passes(64, [15, 16, 16, 16, 17]), "S5"
    assert not passes(64, [13, 14, 14, 14, 15]), "S6"


def test_in_between_mean_and_deviation_are_interpolated() -> None:
    found = known(find([SMALL, LARGE], 192))
    assert (found.mean, round(found.deviation, 3)) == (18.25, 0.547)
    assert round(found.mean / found.least_epochs(COUNTED) - 1, 4) == 0.0368


def test_points_above_the_line_between_others_count_for_nothing() -> None:
    ten, twenty, again = (
        Point(size, mean, 1, 8) for size, mean in ((128, 10), (256, 20), (512, 20))
    )
    # The example of the rules.
    assert prune([twenty, again, ten]) == [ten, again]
    fast = Point(1024, 9, 1, 8)
    assert prune([ten, twenty, again, fast]) == [fast]
    # Once 384 is gone, 256 is above the line from 128 to 512.
    points = [ten, Point(256, 14.5, 1, 8), Point(384, 17, 1, 8), Point(512, 12, 1, 8)]
    assert prune(points) == [ten, points[-1]]


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 26])
def test_quantiles_are_those_of_scipy(freedom: int) -> None:
    for probability in (0.6, 0.95, 0.99):
        assert t_quantile(probability, freedom) == pytest.approx(
            scipy.stats.t.ppf(probability, freedom)
        )
