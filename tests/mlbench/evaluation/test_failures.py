"""Goodput despite failures: as measured, and according to Young's and Daly's formulas."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from mlbench.contract.results import CheckpointCost, Goodput, RankGoodput, Result
from mlbench.evaluation.comparison import compare
from mlbench.evaluation.failures import Costs, best_interval, goodput, youngs_interval
from mlbench.report.tables import tables
from tests.mlbench.evaluation.making import make_facts, make_result
from tests.support.known import known

# Ten steps of 2 s, one of them lost; each takes half a second for its checkpoint.
_FIRST: dict[Any, float] = {"queued": 9, "start": 3, "compute": 8, "checkpoint": 2, "lost": 1}
_LATER: dict[Any, float] = {"detection": 1, "restart": 2, "start": 3}
_LATER |= {"compute": 12, "checkpoint": 3}


def failing(run_id: int) -> Result:
    attempts = ((1, _FIRST), (2, {**_LATER, "idle": 5.0}))
    ranks = tuple(RankGoodput(rank, *attempt) for rank in (0, 1) for attempt in attempts)
    saved: Any = {"training_seconds": 25.0, "checkpoints": CheckpointCost(2, 2.5, 1e6)}
    return make_result(run_id, 2, goodput=Goodput(0.5, {}, ranks), **saved)


def restarted_by_torchrun(run_id: int) -> Result:
    """Return the same result, but torchrun restarted the processes within one attempt."""
    seconds: Any = Counter(_FIRST) + Counter(_LATER) + Counter(idle=5)
    ranks = tuple(RankGoodput(rank, 1, seconds, 1, 3.0) for rank in (0, 1))
    return replace(failing(run_id), goodput=Goodput(0.5, {}, ranks))


@pytest.mark.parametrize("make", [failing, restarted_by_torchrun])
@pytest.mark.parametrize("faults", ["kill:every=30s", "none"])
def test_failures_are_compared_with_the_formula(make: Callable[[int], Result], faults: str) -> None:
    """Failures that nobody injected count, too."""
    results = [make(1), make(2)]
    comparison = compare(results, {run.run_id: make_facts(2, faults=faults) for run in results})
    [row] = comparison.failures
    costs = Costs(checkpoint=2.5, restart=3.0, between=29.0, down=3.0)
    assert (row.group, row.failures, row.between_seconds) == (0, 2, 32)
    assert (row.checkpoint_seconds, row.restart_seconds) == (2.5, 6)
    assert row.interval_seconds == 10
    assert known(row.kept).mean == pytest.approx(20 / 32)
    assert row.expected == goodput(10.0, costs)
    assert row.best_interval_seconds == best_interval(costs)
    assert [table.rows for table in tables(comparison) if table.title == "Failures"]


def test_the_interval_of_goodput_stays_below_100_percent() -> None:
    def keeping(run_id: int, share: float) -> Result:
        seconds: Any = {"compute": share, "lost": 1 - share}
        ranks = (RankGoodput(0, 1, seconds), RankGoodput(0, 2, {}))
        return replace(failing(run_id), goodput=Goodput(share, {}, ranks))

    results = [keeping(number, share) for number, share in enumerate((0.2, 0.9, 0.95), 1)]
    facts = {run.run_id: make_facts(2, faults="kill:every=30s") for run in results}
    [row] = compare(results, facts).failures
    assert 0.95 < known(known(row.kept).mean_high) < 1.0


def test_groups_without_failures_are_left_out_unless_some_were_planned() -> None:
    whole = replace(failing(1), goodput=Goodput(0.5, {}, (RankGoodput(0, 1, _FIRST),)))
    assert compare([whole], {1: make_facts(2)}).failures == ()
    assert compare([whole], {1: make_facts(2, faults="kill:every=30s")}).failures


def test_unrecorded_values_are_not_estimated() -> None:
    facts = {1: make_facts(2, faults="kill:every=30s")}
    [found] = compare([replace(failing(1), checkpoints=None)], facts).failures
    assert (found.interval_seconds, found.expected, found.best_interval_seconds) == (None,) * 3
    assert compare([replace(failing(1), goodput=None)], facts).failures == ()


def test_missing_planned_failures_are_noted_and_stops_are_not_in_the_formula() -> None:
    quiet = [make_result(run_id, goodput=goodput_of(compute=10.0)) for run_id in (1, 2)]
    facts = {run.run_id: make_facts(1, faults="stop:4s:every=8s") for run in quiet}
    compared = compare(quiet, facts)
    [row] = compared.failures
    assert (row.injected, row.failures) == (0, 0)
    assert row.text in compared.findings.notes
    assert row.text.endswith("none of the planned failures fell within its runs")
    stopped = goodput_of(compute=6.0, stopped=4.0)
    ran = [replace(run, injected_faults=1, goodput=stopped) for run in quiet]
    [row] = compare(ran, facts).failures
    assert (row.injected, row.failures, row.text, row.expected) == (2, 0, "", None)
    assert known(row.kept).mean == pytest.approx(0.6)


def goodput_of(**seconds: float) -> Goodput:
    """Return the time breakdown of a run with one rank."""
    buckets: Any = seconds
    share = seconds["compute"] / sum(seconds.values())
    return Goodput(share, buckets, (RankGoodput(0, 1, buckets),))


def simulate(interval: float, costs: Costs, random: Random, segments: int) -> float:
    """Return the simulated share of time that failures leave."""
    wall, left, fails_in = 0.0, segments, random.expovariate(1 / costs.between)
    needed = interval + costs.checkpoint
    while left:
        if fails_in >= needed:
            wall, fails_in = wall + needed, fails_in - needed
            left -= 1
            needed = interval + costs.checkpoint
        else:
            wall += fails_in + costs.down
            fails_in = random.expovariate(1 / costs.between)
            needed = interval + costs.checkpoint + costs.restart
    return segments * interval / wall


@pytest.mark.parametrize("interval", [2.0, 10.0, 40.0])
@pytest.mark.parametrize(("restart", "down"), [(0.0, 0.0), (5.0, 0.0), (5.0, 10.0)])
def test_the_formula_matches_the_simulation(interval: float, restart: float, down: float) -> None:
    costs = Costs(checkpoint=1.0, restart=restart, between=30.0, down=down)
    simulated = simulate(interval, costs, Random(1), 10_000)  # noqa: S311 - no secret
    assert goodput(interval, costs) == pytest.approx(simulated, abs=0.02)


def test_no_other_interval_is_better() -> None:
    day = 24 * 3600.0
    costs = Costs(checkpoint=5.0, restart=600.0, between=day)
    best = best_interval(costs)
    assert best == pytest.approx(youngs_interval(costs), rel=0.02)
    assert best == pytest.approx(math.sqrt(2 * 5 * day) - 5, rel=0.01)
    tried = [best * factor for factor in (0.25, 0.5, 0.9, 1, 1.1, 2, 4)]
    assert max(tried, key=lambda one: goodput(one, costs)) == best


def test_long_checkpoints_have_a_best_interval() -> None:
    costs = Costs(checkpoint=1.0, restart=0.0, between=3.0)
    best = best_interval(costs)
    others = (goodput(interval / 100, costs) for interval in range(10, 1000))
    assert goodput(best, costs) > 0.999 * max(others)
    assert best_interval(Costs(6.0, 0.0, 3.0)) == 3
    # Extreme costs.
    assert goodput(9.0, Costs(1.0, 5.0, math.inf)) == 0.9
    assert goodput(1e9, Costs(1.0, 5.0, 1.0)) == 0
