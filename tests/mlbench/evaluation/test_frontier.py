"""Frontier of algorithms: crossings over bandwidths, and performance profiles."""

import math
from collections.abc import Mapping, Sequence

import pytest

from mlbench.evaluation.comparison import compare
from mlbench.evaluation.frontier import Timed, Workload, crossings, frontier, profiles, timed
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


def test_lines_cross_where_time_and_bandwidth_meet_as_logarithms() -> None:
    # Four times as fast at 5, four times as slow at 80: equal at their geometric mean.
    [one] = crossings(_runs(small={5: [10], 80: [10]}, large={5: [40], 80: [2.5]}))
    assert (one.below, one.above, one.where) == ("small", "large", "2 workers")
    assert one.bandwidth == pytest.approx(20)
    assert (one.low, one.high) == (None, None)
    assert one.text == (
        "2 workers: large overtakes small at 20 Mbit/s (too few runs for an interval)"
    )


def test_equal_runs_leave_no_doubt() -> None:
    runs = _runs(small={5: [10] * 3, 80: [10] * 3}, large={5: [40] * 3, 80: [2.5] * 3})
    [one] = crossings(runs)
    assert [one.low, one.high] == pytest.approx([20, 20])
    assert one.text == "2 workers: large overtakes small at 20 Mbit/s (95 %: 20 to 20)"


def test_an_interval_without_an_end_says_so() -> None:
    # At 80, three such runs may well have a mean of more than 10: then nothing is overtaken.
    runs = _runs(small={5: [10] * 3, 80: [10] * 3}, large={5: [40] * 3, 80: [8, 11, 8]})
    [one] = crossings(runs)
    expected = 5 * 16 ** (math.log(4) / (math.log(4) + math.log(10 / 9)))
    assert one.bandwidth == pytest.approx(expected)
    assert 20 < known(one.low) < expected
    assert one.high is None
    assert one.text.endswith(f"at 65.8 Mbit/s (95 %: {one.low:.3g} to more than 80)")


def test_what_runs_do_not_tell_is_no_crossing() -> None:
    close = _runs(some={5: [8, 10, 12], 80: [8, 10, 12]}, others={5: [8, 11, 12], 80: [8, 9, 12]})
    assert crossings(close) == ()


def test_between_bandwidths_of_which_one_was_too_little_nothing_is_known() -> None:
    runs = _runs(some={5: [None], 20: [8], 80: [2]}, others={5: [9], 20: [7], 80: [4]})
    [one] = crossings(runs)
    assert 20 < one.bandwidth < 80


def test_numbers_of_workers_and_latencies_cross_by_themselves() -> None:
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


def test_the_frontier_is_where_no_other_is_faster() -> None:
    lines = _runs(
        some={5: [10], 80: [10]},
        others={5: [40], 80: [2.5]},
        # At 20, where these cross, it takes half as long.
        third={5: [5], 80: [5]},
    )
    found = [(one.below, one.above, one.on_frontier) for one in crossings(lines)]
    assert found == [("some", "others", False), ("third", "others", True)]


def test_profiles_count_workloads_by_the_distance_from_the_fastest() -> None:
    runs = _runs(
        a={5: [9, 10, 50], 80: [30]},
        b={5: [20], 80: [10]},
        c={5: [12, None, None], 80: [15]},
    )
    second, best, last = profiles(runs)
    assert (best.algorithm, best.ratios) == ("b", (1.0, 2.0))
    assert (second.algorithm, second.ratios) == ("a", (1.0, 3.0))
    assert (last.algorithm, last.ratios) == ("c", (1.5, None))
    # The area below the steps from 1 to 4, by 3: of b, (3 + 2) / 2 / 3.
    assert [p.score for p in (best, second, last)] == pytest.approx([5 / 6, 4 / 6, 2.5 / 6])


def test_a_workload_that_not_all_had_does_not_count() -> None:
    runs = _runs(a={5: [10], 80: [30]}, b={5: [20]})
    assert [one.ratios for one in profiles(runs)] == [(1.0,), (2.0,)]


def test_who_never_reaches_the_target_is_never_near() -> None:
    first, other = profiles(_runs(a={5: [None], 80: [3]}, b={5: [None], 80: [None]}))
    assert (first.ratios, first.score) == ((1.0, None), 0.5)
    assert (other.ratios, other.score) == ((None, None), 0.0)


def test_one_algorithm_or_one_bandwidth_is_no_frontier() -> None:
    assert frontier(_runs(a={5: [1], 80: [1]})) is None
    assert frontier(_runs(a={5: [1]}, b={5: [2]})) is None
    assert frontier(_runs(a={5: [1], 80: [1]}, b={5: [2], 80: [2]})) is not None


def test_algorithms_without_a_common_workload_have_no_frontier() -> None:
    assert frontier(_runs(a={5: [1]}, b={80: [2]})) is None


def test_what_is_swept_besides_bandwidth_is_the_algorithm_or_where_it_ran() -> None:
    swept = {"exchange": "topk", "precision": "bf16", "bandwidth": "20", "latency": "5ms"}
    [one] = timed([reaching(1, 2, 30.0, swept=swept)])
    assert one == Timed("exchange topk precision bf16", Workload("2 workers, latency 5ms", 20), 30)
    unlimited = reaching(1, 1, 30.0, swept={"exchange": "topk", "bandwidth": "none"})
    assert timed([unlimited]) == [Timed("topk", Workload("1 worker", None), 30)]
    assert timed([reaching(1, 1, 30.0, swept={"bandwidth": "20"})]) == []
    assert timed([reaching(1, 1, 30.0)]) == []


def test_a_comparison_has_the_frontier_of_its_sweep() -> None:
    times = {("a", "5"): 10.0, ("a", "80"): 10.0, ("b", "5"): 40.0, ("b", "80"): 2.5}
    runs = [
        reaching(i, 2, seconds, swept={"exchange": name, "bandwidth": bandwidth})
        for i, ((name, bandwidth), seconds) in enumerate(times.items())
    ]
    facts = {run.run_id: make_facts(2, **run.swept) for run in runs}
    front = known(compare(runs, facts).frontier)
    assert [(crossing.below, crossing.above, crossing.where) for crossing in front.crossings] == [
        ("a", "b", "2 workers")
    ]
    assert [profile.algorithm for profile in front.profiles] == ["a", "b"]
