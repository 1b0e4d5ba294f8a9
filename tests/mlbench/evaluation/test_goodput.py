"""Goodput: each worker-second is in exactly one bucket, and each bucket follows its rule."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from mlbench.contract import names
from mlbench.contract.names import PHASES
from mlbench.contract.records import Interference
from mlbench.contract.results import Breakdown, Goodput
from mlbench.evaluation.goodput import breakdown_of, goodput_of, largest
from mlbench.evaluation.inputs import Column, Columns, InjectedFault, Processes, RankRow, RunRow
from tests.mlbench.evaluation.making import START, at_us, columns, on_both
from tests.support.known import known
from tests.support.rows import QUIET

Values = Mapping[float, float]

_RUN: dict[str, Any] = {"id": 7, "name": "a", "created_at": START - 3, "started_at": START}
_RUN |= {"num_workers": 2, "attempt": 1, "state": "FINISHED"}


def row(
    rank: int = 0, attempt: int = 1, began: float = 0, ended: float | None = 40, **more: Any
) -> RankRow:
    """Return a worker's part in an attempt. Its process starts within a second."""
    given: dict[str, Any] = {"assigned_at": START + began, "reported_at": START + began + 1}
    if ended is not None:
        given |= {"exited_at": START + ended, "exit_code": 0}
    return RankRow(rank=rank, attempt=attempt, **(given | more))


def goodput(
    *rows: RankRow, ended: float | None = None, run: Mapping[str, Any] = _RUN, **series: Values
) -> Goodput:
    """Return the goodput of a run until a time, by default the end of its last rank."""
    until = max(row.exited_at or 0.0 for row in rows) if ended is None else START + ended
    return known(goodput_of(RunRow(**{**_RUN, **run}), rows, until, columns(**series)))


def of(found: Goodput, rank: int = 0, attempt: int = 1) -> dict[str, float]:
    [its] = [one for one in found.ranks if (one.rank, one.attempt) == (rank, attempt)]
    return {str(bucket): seconds for bucket, seconds in its.seconds.items()}


def test_a_run_without_failures() -> None:
    usage = goodput(
        row(),
        ended=41,
        run={"room_at": START - 2},
        train_seconds_0={5: 0, 20: 13, 38: 28},
        compile_seconds_0={5: 1.5, 38: 1.5},
        data_seconds_0={20: 1, 38: 2},
        communication_seconds_0={20: 2, 38: 4},
        checkpoint_seconds_0={20: 0, 38: 1},
        evaluation_seconds_0={20: 2, 38: 4},
    )
    expected = {"workers": 2, "start": 1, "initialization": 2.5, "compile": 1.5}
    expected |= {"compute": 21, "communication": 4, "data": 2, "evaluation": 4, "checkpoint": 1}
    assert of(usage) == expected | {"paused": 1, "idle": 3}
    assert dict(usage.seconds) == of(usage)
    assert usage.queued_seconds == 1
    assert usage.share == usage.whole_step_share == 25 / 43
    assert largest([usage, usage]) == "evaluation"


# Both ranks reach step 100 after 10 s of training, and save it within a second. Rank 1 is killed at
# 30 s. Rank 0 hangs in an exchange until it is stopped at 33 s. The next attempt restores step 100.
_KILLED = (
    *(row(0, ended=33, exit_code=-15), row(1, ended=30, exit_code=-9)),
    *(row(rank, 2, began=36, ended=60) for rank in (0, 1)),
)
_CLOCKS: Values = {4: 0, 14: 10, 15: 11, 29: 25, 40: 11, 58: 29}
_RESTORED: Mapping[str, Any] = {
    "ended": 61,
    "run": {"attempt": 2},
    **on_both(
        step={4: 0, 14: 100, 29: 240, 40: 100, 58: 280},
        checkpoint_step={15: 100},
        restored_step={39.5: 100},
        train_seconds=_CLOCKS,
        checkpoint_seconds={14: 0, 15: 1, 29: 1, 40: 1, 58: 1},
    ),
}
_FIRST = {"start": 1, "initialization": 3, "compute": 10, "checkpoint": 1, "lost": 15}


def test_work_after_the_checkpoint_is_lost() -> None:
    usage = goodput(*_KILLED, **_RESTORED, restore_seconds_0={40: 2, 58: 2})
    assert of(usage) == pytest.approx(_FIRST | {"detection": 3, "restart": 3}, abs=2e-6)
    assert of(usage, rank=1) == of(usage)
    second = {"start": 1, "initialization": 1, "restore": 2, "compute": 18, "idle": 3}
    assert of(usage, attempt=2) == second
    assert usage.share == pytest.approx(56 / 122)


def test_without_recorded_checkpoints_steps_determine_the_lost_time() -> None:
    # The second process starts at step 101, so all steps after 100 were repeated.
    found = goodput(
        *_KILLED,
        ended=61,
        run={"attempt": 2},
        train_seconds_0=_CLOCKS,
        step_0={4: 0, 14: 99, 15: 100, 15.1: 101, 29: 240, 40: 101, 58: 280},
    )
    assert (of(found)["compute"], of(found)["lost"]) == (11.1, 14.9)
    assert of(found, rank=1)["unknown"] == 29


def test_code_that_restarts_from_scratch_loses_everything() -> None:
    clocks: Values = {4: 0, 29: 25, 40: 0, 58: 18}
    steps: Values = {4: 0, 29: 250, 40: 0, 58: 180}
    found = goodput(*_KILLED, ended=61, run={"attempt": 2}, train_seconds_0=clocks, step_0=steps)
    assert (of(found)["lost"], of(found).get("compute")) == (26, None)
    assert of(found, attempt=2)["compute"] == 18


def test_an_attempt_without_restored_checkpoints_is_lost() -> None:
    rows = [row(0, n, began=20 * (n - 1), ended=20 * n - 2, exit_code=-9) for n in (1, 2)]
    usage = goodput(
        *(*rows, row(0, 3, began=40, ended=60)),
        ended=60,
        run={"attempt": 3},
        train_seconds_0={2: 0, 17: 15, 22: 10, 37: 25, 42: 10, 60: 28},
        step_0={2: 0, 12: 100, 17: 150, 22: 100, 32: 200, 37: 250, 42: 100, 60: 280},
        checkpoint_step_0={12: 100, 32: 200},
        restored_step_0={22: 100, 42: 100},
    )
    assert (of(usage)["compute"], of(usage)["lost"]) == pytest.approx((10, 6), abs=2e-6)
    assert (of(usage, attempt=2).get("compute"), of(usage, attempt=2)["lost"]) == (None, 16)
    assert of(usage, attempt=3)["compute"] == 18


def test_the_rank_that_communicates_least_does_not_wait() -> None:
    # Rank 1 is slower in the first ten seconds, and rank 0 afterwards.
    clock: Values = {2: 0, 12: 10, 22: 20}
    usage = goodput(
        row(0, ended=22),
        row(1, ended=22),
        **on_both(train_seconds=clock),
        communication_seconds_0={2: 0, 12: 5, 22: 6},
        communication_seconds_1={2: 0, 12: 1, 22: 4},
    )
    assert (of(usage)["communication"], of(usage)["waiting"]) == (2, 4)
    assert (of(usage, rank=1)["communication"], of(usage, rank=1)["waiting"]) == (2, 2)
    assert of(usage)["compute"] == 14


def test_unrecorded_time_is_unknown() -> None:
    silent = goodput(row(), ended=41)
    assert (of(silent)["unknown"], silent.share) == (39, None)
    active = {"state": "STARTED"}
    assert of(goodput(row(ended=None), ended=41, run=active))["initialization"] == 40
    clock: Values = {5: 0, 30: 25}
    running = of(goodput(row(ended=None), ended=41, run=active, train_seconds_0=clock))
    assert (running["compute"], running["unknown"]) == (25, 11)
    ended: Any = {"ended": 41, "run": {"state": "STOPPED"}}
    stopped = of(goodput(row(exit_code=-15), **ended, train_seconds_0=clock))
    assert (stopped["unknown"], stopped["idle"], stopped.get("detection")) == (10, 1, None)


def test_processes_restarted_by_torchrun() -> None:
    restarted = row(processes=Processes((0, 1), {"0": START + 2, "2": START + 21}))
    clock: Values = {4: 0, 14: 10, 25: 5, 40: 20}
    steps: Values = {4: 0, 9: 50, 9.1: 51, 14: 100, 25: 51, 40: 200}
    found = goodput(restarted, ended=41, **on_both(train_seconds=clock, step=steps))
    expected = {"start": 1, "initialization": 7, "compute": 20.1, "lost": 4.9}
    assert of(found) == expected | {"restart": 7, "idle": 1}
    assert (found.ranks[0].restarts, found.ranks[0].again_seconds) == (2, 4)


@pytest.mark.parametrize("seed", range(4))
def test_buckets_add_up_to_the_microsecond(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible
    for _ in range(50):
        rows, series, ended = history(random)
        state = random.choice(names.RUN_STATES)
        run = RunRow(**_RUN | {"attempt": rows[-1].attempt, "state": state})
        usage = known(goodput_of(run, rows, START + ended, series))
        sums = []
        for rank in {entry.rank for entry in rows}:
            parts = [part.seconds.values() for part in usage.ranks if part.rank == rank]
            seconds = [duration for part in parts for duration in part]
            assert min(seconds) > 0
            sums.append(sum(round(duration * 1e6) for duration in seconds))
            assigned_us = min(round(row.assigned_at * 1e6) for row in rows if row.rank == rank)
            assert sums[-1] == at_us(ended) - max(assigned_us, at_us(-3))
        assert sum(round(duration * 1e6) for duration in usage.seconds.values()) == sum(sums)
        assert usage.share is None or 0 <= usage.share <= 1


def history(random: Random) -> tuple[list[RankRow], Columns, float]:
    """Return a random run with restarts, ranks without totals, clock jumps and restored steps."""
    rows, series = [], dict[str, dict[str, Column]]()
    ranks, at = random.randint(1, 4), random.random()
    for attempt in range(1, random.randint(2, 5)):
        length = random.uniform(0.1, 100)
        for rank in range(ranks):
            begun = {"1": START + at + random.uniform(0, length)}
            several = Processes((2 * rank, 2 * rank + 1), begun)
            reported_at = random.choice([None, START + at + random.uniform(0, 5)])
            more: dict[str, Any] = {"exit_code": random.choice([0, 0, 1, -9])}
            more |= {"lost": random.choice(["", "", "silent"])}
            more |= {"processes": random.choice([None, several])}
            more |= {"clock_ahead": random.choice([0.0, 0.0, 3.0])}
            exited = at + random.uniform(0, length)
            rows.append(row(rank, attempt, at, exited, reported_at=reported_at, **more))
        at += length + random.random()
    metrics = [names.TRAIN_SECONDS, names.CHECKPOINT_STEP, names.RESTORED_STEP]
    for metric in [*metrics, *map(names.phase_metric, PHASES)]:
        for rank in range(2 * ranks):
            times = sorted(at_us(random.uniform(-1, at + 1)) for _ in range(random.randint(0, 20)))
            values = [random.choice([0.0, random.uniform(0, at)]) for _ in times]
            is_total = random.random() < 0.8
            if times:
                column = Column(times, sorted(values) if is_total else values)
                series.setdefault(metric, {})[str(rank)] = column
    return rows, series, at + random.random()


def faults(*injected: tuple[str, float, int]) -> Mapping[str, Any]:
    """Return a run's column of these faults: each with its time and rank, in the first attempt."""
    of_run = [InjectedFault(rank, text, at=START + at, attempt=1) for text, at, rank in injected]
    return {"injected": tuple(of_run)}


def test_time_while_a_rank_is_stopped_is_not_goodput() -> None:
    # Each rank is stopped for 5 s, while the other one waits for it in an exchange.
    usage = goodput(
        row(0, ended=32),
        row(1, ended=32),
        run=faults(("stop:5s", 10, 0), ("stop:5s", 20, 1)),
        **on_both(train_seconds={2: 0, 10: 8, 15: 13, 20: 18, 25: 23, 32: 30}),
        communication_seconds_0={2: 0, 10: 2, 15: 2, 20: 3, 25: 8, 32: 9.5},
        communication_seconds_1={2: 0, 10: 2, 15: 7, 20: 8, 25: 8, 32: 9.5},
    )
    for rank in (0, 1):
        assert of(usage, rank)["stopped"] == 10
        assert of(usage, rank)["communication"] == 4.5
        assert of(usage, rank)["compute"] == 15.5
    assert usage.share == 40 / 64
    assert usage.whole_step_share == 60 / 64


@pytest.mark.parametrize("clock_runs", [True, False])
def test_a_stop_measured_by_an_agent_is_not_goodput(clock_runs: bool) -> None:
    # A machine that is suspended for 5 s stops the clocks of its processes; a signal does not.
    stops = {"stopped": ((START + 10, START + 15),), "waiting_seconds": 0}
    end = 20 if clock_runs else 15
    usage = goodput(
        row(0, ended=22, interference=Interference(**QUIET | stops)),
        row(1, ended=22),
        **on_both(train_seconds={2: 0, 10: 8, 15: end - 7, 22: end}),
    )
    for rank in (0, 1):
        assert of(usage, rank)["stopped"] == 5
        assert of(usage, rank)["compute"] == 15


@pytest.mark.parametrize(("slowed", "stopped"), [(100, 3), (400, None)])
def test_a_slowed_rank_costs_the_missing_samples(slowed: int, stopped: int | None) -> None:
    """Faults that ended the process, or came after its end, slowed nothing."""
    usage = goodput(
        row(0, ended=22),
        run=faults(("slow:25%:4s", 10, 0), ("kill", 12, 0), ("stop:5s", 40, 0)),
        train_seconds_0={2: 0, 10: 8, 14: 12, 22: 20},
        samples_0={2: 0, 10: 800, 14: 800 + slowed, 22: 1600 + slowed},
    )
    assert (of(usage).get("stopped"), of(usage)["compute"]) == (stopped, 20 - (stopped or 0))


def test_contention_and_throttling_are_not_compute_time() -> None:
    waits = {"seconds": 40.0, "waiting_seconds": 20.0, "throttled_seconds": 10.0}
    disturbed = row(0, ended=42, interference=Interference(**QUIET | waits))
    clock, busy = {2.0: 0, 42.0: 40}, {2.0: 0, 42.0: 8}
    found = of(goodput(disturbed, train_seconds_0=clock, communication_seconds_0=busy))
    # Without throttling 30 s remain. Contention took 20 s of them: two thirds of each phase.
    assert (found["stopped"], found["contention"]) == (10, 20)
    assert found["compute"] == pytest.approx(22 / 3)
    assert found["communication"] == pytest.approx(8 / 3)


@pytest.mark.parametrize("bucket", ["diverged", "hung"])
def test_time_after_a_run_diverged_or_hung_is_wasted(bucket: Any) -> None:
    rows, series = [row(0, ended=42)], columns(train_seconds_0={2: 0, 12: 10, 42: 40})
    found = goodput_of(RunRow(**_RUN), rows, START + 42, series, (at_us(12), bucket))
    assert of(known(found)) == {"start": 1, "initialization": 1, "compute": 10, bucket: 30}


def test_teardown_after_a_run_diverged_is_idle_like_that_of_others() -> None:
    # A run that stops at the first NaN ends its processes too, so this time cannot be saved.
    rows, series = [row(0, ended=45)], columns(train_seconds_0={2: 0, 12: 10, 42: 40})
    found = goodput_of(RunRow(**_RUN), rows, START + 46, series, (at_us(12), "diverged"))
    assert of(known(found)) == {
        **{"start": 1, "initialization": 1, "compute": 10},
        **{"diverged": 30, "idle": 4},
    }


_AT_ONCE = {"created_at": START, "room_at": START}


def breakdown(
    *rows: RankRow, bins: int, run: Mapping[str, Any] = _AT_ONCE, ended: float, **series: Values
) -> Breakdown:
    of_run = RunRow(**{**_RUN, **run})
    return known(breakdown_of(of_run, rows, START + ended, columns(**series), bins))


def test_the_breakdown_over_time_places_each_bucket() -> None:
    # Rank 0 waits for rank 1 in the first ten seconds, and loads data in the next ten.
    clock: Values = {2: 0, 12: 10, 22: 20}
    found = breakdown(
        row(0, ended=22),
        row(1, ended=22),
        bins=11,
        ended=22,
        **on_both(train_seconds=clock),
        communication_seconds_0={2: 0, 12: 6, 22: 8},
        communication_seconds_1={2: 0, 12: 1, 22: 3},
        data_seconds_0={22: 5},  # Phases are recorded once they have been entered.
    )
    assert (found.begin_seconds, found.bin_seconds, found.attempts) == (0, 2, (0,))
    assert found.discarded == ()
    assert found.seconds == {
        "start": (2, *[0] * 10),
        "initialization": (2, *[0] * 10),
        "compute": pytest.approx((0, *[2.6] * 5, *[2.2] * 5), abs=1e-5),
        "communication": pytest.approx((0, *[0.4] * 5, *[0.8] * 5), abs=1e-5),
        "waiting": pytest.approx((0, *[1] * 5, *[0] * 5), abs=1e-5),
        "data": pytest.approx((*[0] * 6, *[1] * 5), abs=1e-5),
    }


def test_a_phase_recorded_at_its_end_is_placed_where_it_ran() -> None:
    found = breakdown(
        row(0, ended=22),
        bins=11,
        ended=22,
        train_seconds_0={2: 0, 8: 6, 16: 6, 22: 12},
        evaluation_seconds_0={2: 0, 8: 0, 15.9: 0, 16: 7.9, 22: 7.9},
    )
    evaluation = found.seconds["evaluation"]
    assert evaluation == pytest.approx((0, *[0] * 3, *[1.975] * 4, 0, 0, 0), abs=0.2)
    assert sum(evaluation) == pytest.approx(7.9)
    assert sum(found.seconds["paused"]) == pytest.approx(0.1)


def test_the_breakdown_over_time_shows_attempts_and_the_discarded_branch() -> None:
    found, usage = breakdown(*_KILLED, bins=61, **_RESTORED), goodput(*_KILLED, **_RESTORED)
    assert found.attempts == (0, 36)
    [branch] = found.discarded
    assert (branch.begin_seconds, branch.end_seconds) == pytest.approx((15, 39.5), abs=1e-5)
    assert {name: sum(bins) for name, bins in found.seconds.items()} == pytest.approx(usage.seconds)
    lost = [round(seconds, 3) for seconds in found.seconds["lost"]]
    # Both ranks lose the time after the checkpoint, rank 1 until it is killed.
    assert lost == [0] * 15 + [2] * 15 + [0] * 31


@pytest.mark.parametrize("seed", range(2))
def test_each_bin_contains_all_worker_seconds(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible
    for _ in range(30):
        rows, series, ended = history(random)
        run = RunRow(**_RUN | {"attempt": rows[-1].attempt})
        found = known(breakdown_of(run, rows, START + ended, series, 40))
        assert min(seconds for bins in found.seconds.values() for seconds in bins) >= 0
        usage = known(goodput_of(run, rows, START + ended, series))
        totals = {bucket: sum(bins) for bucket, bins in found.seconds.items()}
        assert totals == pytest.approx(usage.seconds, abs=0.001)
        # Once the last rank is assigned, each bin contains all workers.
        last = sum(bins[-1] for bins in found.seconds.values())
        workers = len({entry.rank for entry in rows})
        assert last == pytest.approx(workers * found.bin_seconds, abs=0.001)
