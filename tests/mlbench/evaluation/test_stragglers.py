"""Cost of stragglers in simulated and real steps, and CPU contention of ranks and groups."""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import pytest

from mlbench import Tracker
from mlbench.contract import names
from mlbench.contract.comparisons import Comparison
from mlbench.contract.records import Interference
from mlbench.contract.results import RankInterference, Result, Stragglers
from mlbench.contract.sampled_steps import is_sampled
from mlbench.evaluation.comparison import compare, judge
from mlbench.evaluation.inputs import Columns, RankRow
from mlbench.evaluation.stragglers import interferences, stragglers_of
from mlbench.evaluation.timeline import ClockCorrection
from tests.mlbench.evaluation.making import START, at_us, columns, make_facts, reaching
from tests.support.known import known
from tests.support.rows import QUIET

_AHEAD = 7.0  # seconds by which the clock of rank 1 is ahead
_DATES = ClockCorrection([0], [0], 1 << 60, {"1": [round(_AHEAD * 1e6)]})
_TRANSFER, _STEPS, _REAL_STEPS = 0.05, 400, 24
_METRICS = ("train_seconds", "data_seconds", "communication_seconds")
_SAMPLES = ("sampled_step", "sampled_communication_seconds")
Own = Callable[[int, int], tuple[float, float]]
"""Returns the seconds that a rank loads data and computes in a step."""


def recorded(
    ranks: int, own: Own, *, steps: int = _STEPS, transfer: float = _TRANSFER, samples: bool = True
) -> Columns:
    """Simulate steps in which all ranks wait for the last one; return the recorded values."""
    totals = [dict.fromkeys(_METRICS, 0.0) for _ in range(ranks)]
    ahead = [_AHEAD * (rank == 1) for rank in range(ranks)]
    series = {f"{m}_{rank}": {ahead[rank]: 0.0} for rank in range(ranks) for m in _METRICS}
    if samples:
        series |= {f"{metric}_{rank}": {} for rank in range(ranks) for metric in _SAMPLES}
    last, now = [0.0] * ranks, 0.0
    for step in range(steps):
        works = [own(rank, step) for rank in range(ranks)]
        took = max(map(sum, works)) + transfer
        now += took
        for rank, (data, compute) in enumerate(works):
            for metric, spent in zip(_METRICS, (took, data, took - data - compute), strict=True):
                totals[rank][metric] += spent
            if samples and step and is_sampled(step + 1):
                series[f"sampled_step_{rank}"][now + ahead[rank]] = step + 1
                communication = took - data - compute
                series[f"sampled_communication_seconds_{rank}"][now + ahead[rank]] = communication
            # Like trackers, ranks record about once a second, at different times.
            if step + 1 == steps or now - last[rank] > 1 + rank / 10:
                last[rank] = now
                for metric, total in totals[rank].items():
                    series[f"{metric}_{rank}"][now + ahead[rank]] = total
    return columns(**series)


def cost(ranks: int, own: Own, **options: Any) -> Stragglers:
    return known(stragglers_of(recorded(ranks, own, **options), _DATES))


@pytest.mark.parametrize("ranks", [2, 3, 4, 16])
def test_equally_slow_ranks_are_not_late(ranks: int) -> None:
    found = cost(ranks, lambda *_: (0.02, 0.28))
    assert found.speedup_without == pytest.approx(1)
    assert found.text == ""
    assert [one.seconds for one in found.ranks] == pytest.approx([0] * ranks, abs=1e-6)


@pytest.mark.parametrize("samples", [True, False])
@pytest.mark.parametrize("ranks", [2, 3, 4, 16])
@pytest.mark.parametrize(("data", "what"), [(0.12, "loading data"), (0.02, "computing")])
def test_a_late_rank_is_the_straggler(ranks: int, data: float, what: str, samples: bool) -> None:
    late, usual = (data, 0.2 - data), (0.02, 0.08)
    found = cost(ranks, lambda rank, _: late if rank == 1 else usual, samples=samples)
    assert found.ranks[0].seconds == pytest.approx(0.1 * _STEPS, rel=0.003)
    assert found.speedup_without == pytest.approx(0.25 / 0.15, rel=0.003)
    assert found.named == 1
    assert found.text.endswith(f"s late, mostly in {what}; 1.67x speedup if on time")


def test_with_two_stragglers_neither_is_named() -> None:
    found = cost(5, lambda rank, _: (0.0, 0.35 if rank in (2, 3) else 0.05))
    assert {one.rank for one in found.ranks[:2]} == {2, 3}
    assert [one.speedup_without for one in found.ranks] == pytest.approx([1] * 5)
    assert found.text == "ranks 2, 3 were late; 4.00x speedup if none was late"
    assert found.named is None


def test_contention_of_a_straggler_is_mentioned() -> None:
    series = recorded(2, lambda rank, _: (0.0, 0.2 if rank == 1 else 0.1))
    found = known(stragglers_of(series, _DATES, {1: 38.0}))
    assert "while other programs held the cores for 38.0 s (CPU contention)" in found.text


def test_a_rank_that_was_stopped_is_not_late() -> None:
    # Rank 1 is stopped for 10 s in step 100, which ends 40 s after the start.
    series = recorded(2, lambda rank, step: (0.0, 0.35 + 10 * (rank == 1 and step == 99)))
    stopped = [(at_us(40), at_us(49))]
    assert known(stragglers_of(series, _DATES)).text
    found = known(stragglers_of(series, _DATES, {}, stopped))
    assert found.speedup_without == pytest.approx(1)
    assert found.text == ""


@pytest.mark.parametrize("ranks", [2, 4])
def test_healthy_ranks_are_not_named(ranks: int) -> None:
    # On a busy machine, random ranks are slow for seconds.
    named = 0
    for seed in range(60):
        noise = Random(seed)  # noqa: S311 - reproducible
        level = [[0.05 * noise.lognormvariate(0, 0.2) for _ in range(80)] for _ in range(ranks)]
        found = cost(ranks, lambda rank, step, level=level: (0.0, level[rank][step // 10]))  # type: ignore[misc]
        named += found.named is not None
    assert named <= 2


@pytest.mark.parametrize(("ranks", "late"), [(2, {0: 7, 1: 5}), (4, {0: 7, 1: 5, 2: 3})])
@pytest.mark.parametrize("steps", [600, 20_000])
def test_alternating_stragglers_have_a_cost(ranks: int, late: dict[int, int], steps: int) -> None:
    def own(rank: int, step: int) -> tuple[float, float]:
        return 0.0, 0.024 + 0.02 * (rank in late and step % late[rank] == 0)

    found = cost(ranks, own, steps=steps, transfer=0.001)
    delayed = sum(any(step % every == 0 for every in late.values()) for step in range(steps))
    truth = 1 + 0.02 * delayed / (0.025 * steps)
    assert found.speedup_without == pytest.approx(truth, rel=0.05)
    assert f"{found.speedup_without:.2f}x speedup if none was late" in found.text


@pytest.mark.parametrize("spread", [0.04, 0.15])
def test_noise_of_healthy_steps_is_not_reported(spread: float) -> None:
    noise = Random(1)  # noqa: S311 - reproducible
    found = cost(2, lambda *_: (0.0, 0.05 * noise.lognormvariate(0, spread)))
    assert (found.text, found.named) == ("", None)
    assert found.speedup_without == pytest.approx(1 + spread, abs=0.08)


def test_a_rank_that_died_is_not_a_straggler() -> None:
    # Rank 1 records its last totals at 20 s, and rank 0 waits for it for 3 s.
    clock = {float(s): float(s) for s in range(21)}
    series = columns(
        train_seconds_0=clock | {20.4: 20.4, 23.4: 23.4},
        communication_seconds_0={s: 0.1 * s for s in clock} | {20.4: 2.05, 23.4: 5.0},
        train_seconds_1=clock | {20.5: 20.5},
        communication_seconds_1={s: 0.1 * s for s in clock} | {20.5: 2.05},
    )
    found = known(stragglers_of(series, replace(_DATES, ahead_us={})))
    assert (found.text, found.named) == ("", None)
    assert found.speedup_without == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("missing", [_METRICS[:1], _METRICS[2:], _METRICS])
def test_nothing_is_reported_if_only_one_rank_times_its_exchange(missing: Sequence[str]) -> None:
    series = recorded(2, lambda *_: (0.0, 0.1))
    some = {metric: dict(ranks) for metric, ranks in series.items()}
    for metric in missing:
        del some[metric]["1"]
    assert stragglers_of(some, _DATES) is None


def trained(folder: Path, own: Sequence[float]) -> tuple[Columns, float]:
    """Train on ranks that sleep and wait for each other; return the values of their trackers."""
    folder.mkdir()
    exchange = Barrier(len(own))

    def train(rank: int) -> float:
        with Tracker({names.ENV_METRICS_FILE: str(folder / str(rank))}) as tracker:
            exchange.wait()
            tracker.epoch(0)
            for _ in range(_REAL_STEPS):
                with tracker.phase("forward"):
                    time.sleep(own[rank])
                with tracker.phase("communication"):
                    exchange.wait()
                tracker.step(samples=1)
            return tracker.train_seconds

    with ThreadPoolExecutor(len(own)) as pool:
        seconds = max(pool.map(train, range(len(own))))
    series: dict[str, dict[float, float]] = {}
    for path in (folder / str(rank) for rank in range(len(own))):
        for line in map(json.loads, path.read_text().splitlines()):
            for metric, value in line["metrics"].items():
                series.setdefault(f"{metric}_{path.name}", {})[line["time"] - START] = value
    return columns(**series), seconds


@pytest.mark.slow  # the ranks sleep for six seconds
def test_the_speed_without_a_straggler_is_predicted(tmp_path: Path) -> None:
    series, seconds = trained(tmp_path / "late", [0.08, 0.08, 0.17])
    _, without = trained(tmp_path / "even", [0.08, 0.08, 0.08])
    found = known(stragglers_of(series, replace(_DATES, ahead_us={})))
    assert found.speedup_without == pytest.approx(seconds / without, rel=0.05)
    assert found.ranks[0].rank == 2
    assert found.ranks[0].seconds == pytest.approx(_REAL_STEPS * 0.09, rel=0.1)


def make_rank(rank: int, attempt: int, **measured: Any) -> RankRow:
    interference = Interference.from_fields(QUIET | measured)
    return RankRow(rank=rank, attempt=attempt, interference=interference)


@pytest.mark.parametrize(
    ("measured", "disturbed", "text"),
    [
        ({}, False, "1 % of the time; others used 0.1 of 2 cores"),
        (
            {"waiting_seconds": 4.1, "others_core_seconds": 11.0, "top": {"a": 8.0, "b": 2.9}},
            True,
            "41 % of the time; others used 1.1 of 2 cores (top: a 0.8, b 0.3)",
        ),
        (
            {"self_contention_seconds": 7.5, "others_core_seconds": None, "cores": 1},
            False,
            "1 % of the time, 75 % more by its own doing",
        ),
        (
            {"stolen_seconds": 0.6, "cores": 1},
            True,
            "1 % of the time; others used 0.1 of 1 core; its cores were stolen 6 % of the time",
        ),
        (
            {"profiled": [(100.0, 102.5), (200.0, 203.0)]},
            True,
            "1 % of the time; others used 0.1 of 2 cores; it was profiled for 5.5 s",
        ),
    ],
)
def test_waiting_and_steal_time_are_interference(measured: Any, disturbed: bool, text: str) -> None:
    [found] = interferences([make_rank(1, 1, **measured)])
    assert (found.disturbed, found.text) == (disturbed, f"rank 1 had CPU contention for {text}")


def test_every_measured_attempt_counts() -> None:
    ranks = [make_rank(0, 2), make_rank(1, 1, waiting_seconds=5.0), RankRow(rank=0, attempt=1)]
    entries = interferences(ranks)
    found = [(entry.attempt, entry.rank, entry.disturbed) for entry in entries]
    assert found == [(1, 1, True), (2, 0, False)]
    assert entries[0].text.startswith("rank 1, attempt 1, had CPU contention for 50 % of the time")


def waiting(run_id: int, workers: int, seconds: float, *shares: float) -> Result:
    """Return the result of a run whose ranks waited for these shares of their time."""
    ranks = []
    for rank, share in enumerate(shares):
        waits = {"waiting_seconds": 0.0, "stack_waiting_seconds": share * QUIET["seconds"]}
        waited = Interference(**QUIET | waits)
        ranks.append(RankInterference(rank, 1, False, 0.0, None, "", waited))
    return reaching(run_id, workers, seconds, interferences=tuple(ranks))


def compared_groups(ours: float, theirs: float, *, faster: float) -> Comparison:
    """Compare five runs on one worker and five on two, with these shares of waiting."""
    runs = [waiting(i, 1, 10 + i / 100, ours) for i in range(5)]
    runs += [waiting(9 + i, 2, (10 + i / 100) / faster, 0.0, theirs) for i in range(5)]
    return compare(runs, {run.run_id: make_facts(run.num_workers) for run in runs})


def test_the_share_of_a_group_is_that_of_the_rank_that_waited_most() -> None:
    compared = compared_groups(0.002, 0.03, faster=1.5)
    shares = [known(group.contention_share) for group in compared.groups]
    assert shares == pytest.approx([0.002, 0.03])
    assert known(compared.groups[1].contention_cost) == pytest.approx(0.039)
    assert judge(compared).verdict == "yes"


@pytest.mark.parametrize(
    ("ours", "theirs", "faster", "is_doubtful"),
    [
        *((0.0, 0.04, 1.08, False), (0.0, 0.04, 1.03, True), (0.03, 0.0, 1.03, True)),
        (0.04, 0.04, 1.001, False),
        (0.0, 0.005, 1.001, False),  # less than 1 % of the time is ignored
    ],
)
def test_a_difference_smaller_than_the_cost_of_contention_is_doubtful(
    ours: float, theirs: float, faster: float, *, is_doubtful: bool
) -> None:
    compared = compared_groups(ours, theirs, faster=faster)
    assert bool(compared.groups[1].contention_doubt) == is_doubtful
    assert bool(judge(compared).disturbed) == is_doubtful


def test_the_sentence_has_the_difference_and_both_costs() -> None:
    compared = compared_groups(0.0, 0.04, faster=1.03)
    cost = "and CPU contention cost them about 0.0 % and 5.2 %"
    assert compared.findings.disturbed == (f"1 worker and 2 workers differ by 3.0 %, {cost}",)
    assert compared.findings.verdict == "disturbed"
