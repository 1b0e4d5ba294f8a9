"""The frontier of algorithms over bandwidths, and the importance of swept options."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from random import Random

import pytest

from mlbench.contract.results import Result
from mlbench.contract.sweeps import Axis, Importance, SetPoint
from mlbench.evaluation.comparison import compare
from mlbench_science.sweep_analysis import (
    Timed,
    Workload,
    crossings,
    frontier,
    importances,
    interval,
    profiles,
    spearman,
    timed,
)
from tests.mlbench.evaluation.making import make_facts, reaching
from tests.support.known import known

Times = Mapping[float | None, Sequence[float | None]]


def _runs(where: str = "2 workers", /, **algorithms: Times) -> list[Timed]:
    return [
        Timed(algorithm, Workload(where, bandwidth), seconds)
        for algorithm, by_bandwidth in algorithms.items()
        for bandwidth, times in by_bandwidth.items()
        for seconds in times
    ]


def test_crossings_are_interpolated_logarithmically() -> None:
    # Four times as fast at 5, four times as slow at 80: they cross at the geometric mean.
    [one] = crossings(_runs(small={5: [10], 80: [10]}, large={5: [40], 80: [2.5]}))
    assert (one.below, one.above, one.where) == ("small", "large", "2 workers")
    assert one.bandwidth == pytest.approx(20)
    assert (one.low, one.high) == (None, None)
    assert one.text == (
        "2 workers: large overtakes small at 20 Mbit/s (too few runs for an interval)"
    )


def test_runs_without_variance_give_an_exact_crossing() -> None:
    runs = _runs(small={5: [10] * 3, 80: [10] * 3}, large={5: [40] * 3, 80: [2.5] * 3})
    [one] = crossings(runs)
    assert [one.low, one.high] == pytest.approx([20, 20])
    assert one.text == "2 workers: large overtakes small at 20 Mbit/s (95 %: 20 to 20)"


def test_an_interval_may_have_no_upper_end() -> None:
    # The mean of three such runs at 80 may exceed 10, and then the lines do not cross.
    runs = _runs(small={5: [10] * 3, 80: [10] * 3}, large={5: [40] * 3, 80: [8, 11, 8]})
    [one] = crossings(runs)
    expected = 5 * 16 ** (math.log(4) / (math.log(4) + math.log(10 / 9)))
    assert one.bandwidth == pytest.approx(expected)
    assert 20 < known(one.low) < expected
    assert one.high is None
    assert one.text.endswith(f"at 65.8 Mbit/s (95 %: {one.low:.3g} to more than 80)")


def test_differences_within_the_noise_are_not_a_crossing() -> None:
    close = _runs(some={5: [8, 10, 12], 80: [8, 10, 12]}, others={5: [8, 11, 12], 80: [8, 9, 12]})
    assert crossings(close) == ()


def test_bandwidths_without_a_time_are_not_interpolated() -> None:
    runs = _runs(some={5: [None], 20: [8], 80: [2]}, others={5: [9], 20: [7], 80: [4]})
    [one] = crossings(runs)
    assert 20 < one.bandwidth < 80


def test_crossings_are_separate_for_each_number_of_workers_and_latency() -> None:
    flat: Times = {5: [10], 80: [10], None: [1]}
    runs = [
        *_runs("2 workers", some=flat, others={5: [40], 80: [2.5], None: [1]}),
        *_runs("4 workers", some=flat, others={5: [20], 80: [5], 320: [1]}),
        *_runs("2 workers, latency 5ms", some=flat, others={5: [20], 80: [15]}),
    ]
    assert [(crossing.where, round(crossing.bandwidth)) for crossing in crossings(runs)] == [
        ("2 workers", 20),
        ("4 workers", 20),
    ]


def test_a_crossing_below_a_faster_algorithm_is_not_on_the_frontier() -> None:
    lines = _runs(
        some={5: [10], 80: [10]},
        others={5: [40], 80: [2.5]},
        # Takes half as long as the others at 20, where they cross.
        third={5: [5], 80: [5]},
    )
    found = [(one.below, one.above, one.on_frontier) for one in crossings(lines)]
    assert found == [("some", "others", False), ("third", "others", True)]


def test_profiles_have_the_ratio_to_the_fastest_algorithm() -> None:
    runs = _runs(
        a={5: [9, 10, 50], 80: [30]}, b={5: [20], 80: [10]}, c={5: [12, None, None], 80: [15]}
    )
    second, best, last = profiles(runs)
    assert (best.algorithm, best.ratios) == ("b", (1.0, 2.0))
    assert (second.algorithm, second.ratios) == ("a", (1.0, 3.0))
    assert (last.algorithm, last.ratios) == ("c", (1.5, None))
    # The area below the steps from 1 to 4, divided by 3. For b: (3 + 2) / 2 / 3.
    assert [p.score for p in (best, second, last)] == pytest.approx([5 / 6, 4 / 6, 2.5 / 6])


def test_workloads_that_an_algorithm_lacks_are_left_out() -> None:
    runs = _runs(a={5: [10], 80: [30]}, b={5: [20]})
    assert [one.ratios for one in profiles(runs)] == [(1.0,), (2.0,)]


def test_an_algorithm_that_missed_its_target_has_no_ratio() -> None:
    first, other = profiles(_runs(a={5: [None], 80: [3]}, b={5: [None], 80: [None]}))
    assert (first.ratios, first.score) == ((1.0, None), 0.5)
    assert (other.ratios, other.score) == ((None, None), 0.0)


def _sweep(**algorithms: Mapping[str, float]) -> list[Result]:
    """Return one run per algorithm and bandwidth, from seconds to target."""
    times = [
        (algorithm, bandwidth, seconds)
        for algorithm, by_bandwidth in algorithms.items()
        for bandwidth, seconds in by_bandwidth.items()
    ]
    return [
        reaching(i, 2, seconds, swept={"exchange": algorithm, "bandwidth": bandwidth})
        for i, (algorithm, bandwidth, seconds) in enumerate(times)
    ]


@pytest.mark.parametrize(
    "algorithms",
    [
        {"a": {"5": 1.0, "80": 1.0}},
        {"a": {"5": 1.0}, "b": {"5": 2.0}},
        # No common workload.
        {"a": {"5": 1.0}, "b": {"80": 2.0}},
    ],
)
def test_a_frontier_needs_two_algorithms_and_two_bandwidths(
    algorithms: Mapping[str, Mapping[str, float]],
) -> None:
    assert frontier(_sweep(**algorithms)) is None


def test_swept_options_other_than_bandwidth_name_the_algorithm_or_workload() -> None:
    swept = {"exchange": "topk", "precision": "bf16", "bandwidth": "20", "latency": "5ms"}
    [one] = timed([reaching(1, 2, 30.0, swept=swept)])
    assert one == Timed("exchange topk precision bf16", Workload("2 workers, latency 5ms", 20), 30)
    unlimited = reaching(1, 1, 30.0, swept={"exchange": "topk", "bandwidth": "none"})
    assert timed([unlimited]) == [Timed("topk", Workload("1 worker", None), 30)]
    assert timed([reaching(1, 1, 30.0, swept={"bandwidth": "20"})]) == []
    assert timed([reaching(1, 1, 30.0)]) == []


def test_the_comparison_of_a_sweep_has_a_frontier() -> None:
    runs = _sweep(a={"5": 10.0, "80": 10.0}, b={"5": 40.0, "80": 2.5})
    facts = {run.run_id: make_facts(2, **run.swept) for run in runs}
    front = known(compare(runs, facts).frontier)
    assert [(crossing.below, crossing.above, crossing.where) for crossing in front.crossings] == [
        ("a", "b", "2 workers")
    ]
    assert [profile.algorithm for profile in front.profiles] == ["a", "b"]


@pytest.mark.parametrize("runs", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_intervals_cover_95_percent_of_the_true_crossings(runs: int) -> None:
    random, count, covered = Random(runs), 0, 0  # noqa: S311 - no secret
    # Both take the same time at 20 Mbit/s
    lines = {"small": {5: 10.0, 80: 10.0}, "large": {5: 40.0, 80: 2.5}}
    for _ in range(100):
        drawn = [
            Timed(name, Workload("", mbit), mean * random.lognormvariate(-0.005, 0.1))
            for name, line in lines.items()
            for mbit, mean in line.items()
            for _ in range(runs)
        ]
        for crossing in crossings(drawn):
            count += 1
            covered += (crossing.low or 0.0) <= 20.0 <= (crossing.high or math.inf)
    assert count == 100
    assert covered / count >= 0.94


# --- Importance of options ---

# Seconds to target by exchange and bandwidth. The exchange has the larger effect.
_SECONDS = {
    ("flat", "10"): 90.0,
    ("flat", "100"): 60.0,
    ("topk", "10"): 30.0,
    ("topk", "100"): 20.0,
}
_AXES = (
    Axis("exchange", "", ("flat", "topk"), None, is_wide=False),
    Axis("bandwidth", "Mbit/s", ("10", "100"), (10.0, 100.0), is_wide=True),
)


def _ranked(
    seconds: Mapping[tuple[str, str], float | None], runs: int = 16
) -> tuple[tuple[Importance, ...], str]:
    """Return importances and text for a number of runs that take the combinations in turn."""
    points = []
    for number, (values, time) in zip(range(runs), cycle(seconds.items()), strict=False):
        points.append(SetPoint(number, "", values, time and time + number / 100))
    return importances(_AXES, points, by_time=True)


@pytest.mark.parametrize(
    ("some", "others", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, math.inf], 1),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1),
        # Ranks 1.5, 1.5, 3.5, 3.5, 5 and 1, 2.5, 2.5, 5, 4
        ([1, 1, 2, 2, 3], [5, 6, 6, 8, 7], 6.5 / math.sqrt(9 * 9.5)),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_the_rank_correlation_equals_spearmans_rho(
    some: list[float], others: list[float], expected: float | None
) -> None:
    found = spearman(some, others)
    assert found == (expected and pytest.approx(expected))


def _normal(correlation: float) -> Callable[[Random], tuple[float, float]]:
    def draw(random: Random) -> tuple[float, float]:
        x, e = random.gauss(0, 1), random.gauss(0, 1)
        return x, correlation * x + math.sqrt(1 - correlation**2) * e

    return draw


def _of_three_levels(random: Random) -> tuple[float, float]:
    level = random.randrange(3)
    return level, level + random.lognormvariate(0, 1)


@pytest.mark.parametrize("runs", [6, 30])
@pytest.mark.parametrize("draw", [_normal(0.0), _normal(0.6), _normal(0.9), _of_three_levels])
def test_intervals_cover_the_true_correlation(
    draw: Callable[[Random], tuple[float, float]], runs: int
) -> None:
    random = Random(runs)  # noqa: S311 - no secret
    true = known(spearman(*zip(*(draw(random) for _ in range(20_000)), strict=True)))
    covered = times = 0
    for _ in range(1000):
        correlation = spearman(*zip(*(draw(random) for _ in range(runs)), strict=True))
        if correlation is not None:
            low, high = interval(correlation, runs)
            covered += known(low) <= true <= known(high)
            times += 1
    assert covered / times > 0.93


def test_few_runs_have_no_interval() -> None:
    assert interval(0.5, 4) == (None, None)
    low, high = interval(1.0, 5)
    assert known(low) < known(high) == 1


def test_the_most_important_option_comes_first() -> None:
    effects, text = _ranked(_SECONDS)
    assert [(effect.key, effect.value) for effect in effects] == [
        ("exchange", "topk"),
        ("bandwidth", ""),
    ]
    assert all(effect.correlation < 0 for effect in effects), "both options reduce the time"
    assert text == "exchange matters most"


@pytest.mark.parametrize(
    ("changed", "runs", "text"),
    [
        ({}, 4, "Nothing can be told from chance with 4 runs"),
        ({}, 0, "Too few runs have ended to see what matters"),
        (
            {("topk", "10"): 60.0, ("topk", "100"): 30.0},
            24,
            "bandwidth or exchange matters most: which of them cannot be told yet",
        ),
    ],
)
def test_an_inconclusive_ranking_is_explained(
    changed: Mapping[tuple[str, str], float], runs: int, text: str
) -> None:
    assert _ranked({**_SECONDS, **changed}, runs)[1] == text


def test_a_run_that_missed_its_target_ranks_last() -> None:
    effects, _ = _ranked({**_SECONDS, ("flat", "10"): None})
    assert effects[0].correlation == pytest.approx(-0.87, abs=0.01), (
        "the sign is that of topk, the faster algorithm"
    )
