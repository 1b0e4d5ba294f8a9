"""Results of runs: figures calculated from recorded values, and outcomes."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mlbench.contract.diagnosis import Diagnosis, Verdict
from mlbench.contract.records import Interference, Outcome, Target
from mlbench.contract.results import Result, TimeToTarget
from mlbench.evaluation.comparison import compare
from mlbench.evaluation.inputs import Criteria, NotFiniteLoss, RankRow, RunRow
from mlbench.evaluation.result import RunContext, evaluate
from tests.mlbench.evaluation.making import START, columns, make_facts, on_both, reaching
from tests.support.evidence import evidence_of
from tests.support.known import known
from tests.support.rows import QUIET

_RUN: dict[str, Any] = {"id": 7, "name": "a", "benchmark": "digits", "state": "FINISHED"}
_RUN |= {"num_workers": 2}


def rank(attempt: int, assigned_at: float, exited_at: float) -> RankRow:
    """Return a rank that occupied a worker between two times, in seconds after the start."""
    begin, end = START + assigned_at, START + exited_at
    return RankRow(rank=0, attempt=attempt, assigned_at=begin, exited_at=end)


_CONTEXT = RunContext(
    run=RunRow(**_RUN, started_at=START, target=Target("acc", 97.0), energy_joules=12.5),
    ranks=(rank(1, -1, 59), rank(1, -1, 60)),
    ended_at=START + 60,
)

_UNSTATED = "the run has not stated its settings"

Values = Mapping[float, float]


def evaluated(context: RunContext = _CONTEXT, **series: Values) -> Result:
    return evaluate(context, columns(**series))


def test_a_run_that_recorded_nothing() -> None:
    fields = evaluated().to_fields()
    after = {"limit_seconds": 7200.0, "value": None, "at_seconds": None, "clock": "wall"}
    expected = {**_RUN, "run_id": 7, "division": "closed", "rule_violations": [_UNSTATED]}
    del expected["id"]
    expected |= {"target": Target("acc", 97.0).to_fields(), "wall_seconds": 60.0, "phases": {}}
    expected |= {"accuracy_after_time": after, "energy_joules": 12.5, "cost": fields["cost"]}
    expected |= {"disturbed": [], "interferences": [], "clock_faults": [], "display_name": "a"}
    expected |= {"world_size": 2, "swept": {}, "ranks": [], "goodput": fields["goodput"]}
    expected |= {"resumptions": [], "training_time_problem": "", "hidden_phases": {}}
    expected |= {"sampled_steps": None, "findings": []}
    expected |= {"outcome": fields["outcome"], "injected_faults": 0}
    assert fields == dict.fromkeys(fields) | expected


def test_epochs_to_target_are_those_of_the_rank_that_reached_it() -> None:
    found = evaluated(acc_0={40: 98}, acc_1={20: 98}, epoch_0={30: 0}, epoch_1={5: 0, 15: 1, 25: 2})
    assert found.time_to_target == TimeToTarget(None, 20.0, epochs=2)
    assert found.epochs == 1


def test_other_figures_do_not_need_a_target() -> None:
    run = replace(_CONTEXT.run, target=None)
    context = replace(_CONTEXT, run=run, criteria=Criteria(price=0.5))
    found = evaluated(context, acc_0={20: 98}, train_seconds_0={20: 8})
    assert (found.target, found.time_to_target, found.accuracy_after_time) == (None, None, None)
    assert (found.last_value, found.best_value, found.curve) == (None, None, None)
    assert found.training_seconds == 8.0
    cost = known(found.cost)
    assert (cost.total, cost.to_target) == (30.5, None)
    # A run that never started has none.
    unstarted = evaluated(replace(_CONTEXT, run=RunRow(**_RUN), ranks=()))
    assert (unstarted.wall_seconds, unstarted.cost, unstarted.time_to_target) == (None, None, None)
    assert unstarted.accuracy_after_time is None


def test_training_time_is_the_mean_of_the_ranks_and_samples_their_sum() -> None:
    result = evaluated(
        train_seconds_0={10: 4, 50: 40},
        train_seconds_1={10: 5, 50: 44},
        samples_0={50: 2000},
        samples_1={50: 2200},
        epoch_0={0: 0, 40: 4},
        epoch_1={0: 0, 40: 3},
        bytes_sent_per_step_0={10: 90, 50: 100},
        bytes_sent_per_step_1={50: 60},
    )
    assert (result.training_seconds, result.samples, result.epochs) == (42.0, 4200.0, 5)
    assert result.bytes_sent_per_step == 80.0
    assert result.samples_per_second == 100.0


def _profiled(*spans: tuple[float, float]) -> RunContext:
    profiled = {"profiled": [(START + a, START + b) for a, b in spans]}
    measured = Interference.from_fields(QUIET | profiled)
    ranks = [RankRow(rank=0, attempt=1, interference=measured), RankRow(rank=1, attempt=1)]
    return replace(_CONTEXT, ranks=ranks, run=RunRow(**_RUN | {"attempt": 1}, started_at=START))


# Each of two ranks processes 100 samples/s, but only 10 samples/s from 2.5 to 5 s.
_SAMPLES = (0, 100, 200, 255, 265, 275, 375)
_SLOWED = on_both(samples=dict(enumerate(_SAMPLES)), train_seconds=dict(enumerate(range(7))))


@pytest.mark.parametrize(
    ("spans", "rate"),
    [
        ([], 125.0),
        ([(2.5, 4.6)], 200.0),
        # Overlapping spans count once.
        ([(2.1, 3.5), (2.5, 4.6), (2.6, 2.7)], 200.0),
        ([(2.5, 90.0)], 200.0),
        # Everything was profiled, but a distorted rate is better than none.
        ([(-1.0, 90.0)], 125.0),
    ],
)
def test_throughput_excludes_profiled_seconds(
    spans: list[tuple[float, float]], rate: float
) -> None:
    found = evaluated(_profiled(*spans), **_SLOWED)
    assert found.samples_per_second == pytest.approx(rate)
    assert (found.samples, found.training_seconds) == (750.0, 6.0)
    assert bool(found.disturbed) == bool(spans)


def test_rates_use_the_clock_value_recorded_with_the_totals() -> None:
    # The run was killed after its third evaluation, and the totals of the last epoch were lost.
    result = evaluated(
        acc_0={10: 50, 20: 60, 30: 70},
        train_seconds_0={0: 0, 10: 9, 10.001: 9, 20: 18, 20.002: 18, 30: 27},
        samples_0={0: 0, 10.001: 900, 20.002: 1800},
        communication_seconds_0={10.001: 3, 20.002: 6},
    )
    assert (result.training_seconds, result.samples) == (27.0, 1800.0)
    assert result.samples_per_second == 100.0
    assert result.communication_share == pytest.approx(1 / 3)
    assert result.phases == {"communication": 6.0, "other": 12.0}


# Two ranks process 32 samples in each step of 0.1 s. Rank 0 communicates for 0.04 s of a step, and
# the slower rank 1 for 0.02 s. Both record their totals after steps 10 and 20.
_TOTALS: dict[str, Values] = {
    **on_both(samples={1: 320, 2: 640}, train_seconds={1: 1, 2: 2}, step={2: 20}),
    "communication_seconds_0": {1: 0.4, 2: 0.8},
    "communication_seconds_1": {1: 0.2, 2: 0.4},
}


def test_figures_of_a_rank_come_from_its_last_totals() -> None:
    found = evaluated(_CONTEXT, **_TOTALS)
    zero, one = found.ranks
    assert (zero.rank, zero.steps, zero.samples, zero.training_seconds) == (0, 20, 640.0, 2.0)
    assert (zero.step_seconds, zero.communication_share) == (0.1, 0.4)
    assert (zero.compute_seconds, one.compute_seconds) == pytest.approx((0.06, 0.08))
    assert zero.phases == {"communication": 0.8, "other": 1.2}
    assert known(found.stragglers).speedup_without == pytest.approx(0.1 / 0.08)
    assert (found.step_seconds, found.samples_per_second) == (0.1, 640.0)


def test_steps_before_the_clock_are_left_out_of_the_step_time() -> None:
    """The clock of watched PyTorch code begins with the end of the first step."""
    begun: dict[str, Values] = {
        "train_seconds_0": {0: 0, **_TOTALS["train_seconds_0"]},
        "step_0": {0: 1, 2: 21},
    }
    [zero, _] = evaluated(_CONTEXT, **_TOTALS | begun).ranks
    assert (zero.steps, zero.step_seconds) == (21, 0.1)
    assert zero.compute_seconds == pytest.approx(0.06)


def test_totals_belong_to_the_last_step_before_them_within_a_millisecond() -> None:
    fast = {name: {1: of[1], 2.0004: of[2]} for name, of in _TOTALS.items() if "step" not in name}
    fast |= {"step_0": {2 - 0.0003: 18, 2.0: 19, 2.0003: 20, 2.0006: 21}, "step_1": {2: 20}}
    assert evaluated(_CONTEXT, **fast).ranks[0].steps == 20


def test_a_killed_rank_is_measured_by_its_own_steps() -> None:
    # Rank 1 raised an exception after step 20. Rank 0 was killed at step 20 and recorded its last
    # totals at step 10.
    first = ("samples_0", "train_seconds_0", "communication_seconds_0")
    killed = _TOTALS | {name: {1: _TOTALS[name][1]} for name in first}
    killed["step_0"] = {1 + i / 10: 10 + i for i in range(11)}
    found = evaluated(_CONTEXT, **killed)
    assert [one.steps for one in found.ranks] == [10, 20]
    assert [one.step_seconds for one in found.ranks] == [0.1, 0.1]
    assert found.samples_per_second == pytest.approx(640.0)


_FAILED = replace(_CONTEXT, run=replace(_CONTEXT.run, state="FAILED"))


def _steps(first: int, last: int) -> Values:
    return {step / 20: step for step in range(first, last + 1)}


@pytest.mark.parametrize("state", ["FAILED", "STOPPED"])
def test_totals_of_a_failed_run_end_at_the_last_common_step(state: Any) -> None:
    # Each step has 32 samples and takes 50 ms, 4 ms of it communication. Rank 1 is killed after
    # step 50, with its last totals at step 40. Rank 0 waits for it for 3 s, and then records its
    # last totals.
    found = evaluated(
        replace(_CONTEXT, run=replace(_CONTEXT.run, state=state)),
        step_0={**_steps(1, 50), 5.501: 50},
        samples_0={1: 640, 2: 1280, 5.501: 1600},
        train_seconds_0={1: 1, 2: 2, 5.501: 5.5},
        communication_seconds_0={1: 0.08, 2: 0.16, 5.501: 3.2},
        step_1=_steps(1, 50),
        samples_1={1: 640, 2: 1280},
        train_seconds_1={1: 1, 2: 2},
        communication_seconds_1={1: 0.08, 2: 0.16},
    )
    for of_rank in found.ranks:
        assert (of_rank.steps, of_rank.samples) == (50, 1600.0)
        assert (of_rank.step_seconds, of_rank.communication_share) == pytest.approx((0.05, 0.08))
    assert [found.samples, found.training_seconds] == pytest.approx([3200.0, 2.5])
    assert found.samples_per_second == pytest.approx(1280.0)
    assert found.communication_share == pytest.approx(0.08)


def test_steps_recorded_only_with_totals_end_with_the_totals() -> None:
    found = evaluated(
        _FAILED,
        step_0={1: 20, 2: 40, 5.501: 50},
        samples_0={1: 640, 2: 1280, 5.501: 1600},
        train_seconds_0={1: 1, 2: 2, 5.501: 5.5},
        data_seconds_0={5.501: 3},
        step_1={1: 20, 2.2: 44},
        samples_1={1: 640, 2.2: 1408},
        train_seconds_1={1: 1, 2.2: 2.2},
    )
    for of_rank in found.ranks:
        assert (of_rank.steps, of_rank.samples) == (44, 1408.0)
        assert of_rank.step_seconds == pytest.approx(0.05)
    assert found.phases["data"] == 0.0


def test_samples_of_a_failed_run_are_whole_numbers() -> None:
    # Both ranks record totals at step 7, and rank 1 is killed after step 17.
    found = evaluated(
        _FAILED,
        step_0=_steps(1, 17),
        samples_0={0.35: 840},
        train_seconds_0={0.35: 0.35},
        step_1=_steps(1, 17),
        samples_1={0.35: 840},
        train_seconds_1={0.35: 0.35},
    )
    assert [of_rank.samples for of_rank in found.ranks] == [2040.0, 2040.0]


def test_totals_without_steps_or_samples() -> None:
    steps, samples = dict(_TOTALS), dict(_TOTALS)
    del steps["step_1"], samples["samples_0"]
    assert evaluated(_FAILED, **steps).samples_per_second == 640.0
    found = evaluated(_CONTEXT, **samples)
    assert (found.samples, found.samples_per_second) == (None, None)


@pytest.mark.parametrize(
    ("rank", "clock"), [("", {50: 40}), ("_0", {40: 30, 51: 40}), ("_0", {40: 40})]
)
def test_totals_without_a_clock_value_use_the_next_or_last_one(rank: str, clock: Values) -> None:
    series: Any = {f"samples{rank}": {50.0: 800.0}, "train_seconds_0": clock}
    assert evaluated(**series).samples_per_second == 20.0


def test_no_samples_and_no_time() -> None:
    found = evaluated(samples_0={50: 0}, train_seconds_0={50: 40})
    assert (found.samples, found.samples_per_second) == (0.0, 0.0)
    assert evaluated(samples_0={50: 9}, train_seconds_0={50: 0}).samples_per_second is None


def test_numbers_that_are_not_finite_do_not_count() -> None:
    result = evaluated(
        train_seconds_0={40: 20, 50: math.nan},
        samples_0={40: 10, 50: math.inf},
        forward_seconds_0={50: math.nan},
        epoch_0={50: 1e300},
    )
    assert (result.training_seconds, result.samples, result.epochs) == (20.0, 10.0, None)
    assert result.phases == {}
    huge = evaluated(train_seconds_0={50: 1.6e308}, train_seconds_1={50: 1.6e308})
    assert huge.to_fields()["training_seconds"] is None, "the sum is too large for a float"


def test_phases_are_the_mean_of_the_ranks_and_other_is_the_rest_of_the_training_time() -> None:
    result = evaluated(
        train_seconds_0={50: 40},
        train_seconds_1={50: 44},
        forward_seconds_0={10: 1, 50: 12},
        forward_seconds_1={50: 14},
        communication_seconds_0={50: 10},
        communication_seconds_1={50: 11},
        # Rank 1 does not evaluate, which counts as 0 s.
        evaluation_seconds_0={50: 6},
    )
    phases = {"forward": 13.0, "communication": 10.5, "evaluation": 3.0}
    assert result.phases == {**phases, "other": 42.0 - 13.0 - 10.5}
    assert result.communication_share == 0.25


def test_phases_with_too_little_recorded() -> None:
    found = evaluated(train_seconds_0={50: 4}, forward_seconds_0={50: 4.1})
    assert (found.phases["other"], found.communication_share) == (0.0, None)
    alone = evaluated(forward_seconds_0={50: 4.0}, communication_seconds_0={50: 1.0})
    assert alone.phases == {"forward": 4.0, "communication": 1.0}
    assert alone.communication_share is None


def test_the_cost_covers_the_time_that_workers_were_assigned() -> None:
    ranks = [
        *(rank(1, -2, 20), replace(rank(1, -1, 18), rank=1)),
        *(rank(2, 21, 60), replace(rank(2, 22, 58), rank=1)),
    ]
    run = replace(_CONTEXT.run, created_at=START - 5)
    context = replace(_CONTEXT, run=run, ranks=ranks, criteria=Criteria(price=0.25))
    result = evaluated(context, acc_0={30: 98})
    cost = known(result.cost)
    assert cost.worker_seconds == 62 + 61 == sum(known(result.goodput).seconds.values())
    assert cost.worker_seconds_to_target == 32 + 31
    assert (cost.price, cost.total, cost.to_target) == (0.25, 30.75, 15.75)


def restarted(**series: Values) -> Result:
    """Evaluate a run whose second attempt started after 20 s."""
    ranks = (rank(1, -1, 18), rank(2, 20, 60))
    context = replace(_CONTEXT, run=replace(_CONTEXT.run, attempt=2), ranks=ranks)
    return evaluated(context, **{f"{name}_0": values for name, values in series.items() if values})


_RESTARTED: dict[str, Values] = {
    "step": {0: 0, 5: 50, 10: 100, 15: 150, 22: 0, 27: 50},
    "epoch": {0: 0, 5: 1, 10: 2, 15: 3, 22: 3, 27: 4},
    "train_seconds": {0: 0, 5: 5, 10: 10, 15: 15, 22: 0, 27: 5, 32: 10},
    "samples": {5: 50, 10: 100, 15: 150, 27: 50, 32: 100},
    "acc": {5: 90, 10: 95, 15: 96, 27: 98},
}


def test_the_time_to_target_is_unknown_if_the_tracker_was_not_restored() -> None:
    result = restarted(**_RESTARTED)
    assert "continued at epoch 3" in result.training_time_problem
    assert "t.load_state_dict" in result.training_time_problem
    unknown = (result.time_to_target, result.accuracy_after_time, result.training_seconds)
    assert (*unknown, result.samples) == (None, None, None, None)
    assert (result.resumptions, result.epochs, result.best_value) == ((), 5, 98)
    seconds = known(result.goodput).seconds
    assert "lost" not in seconds, "no step is known to be repeated"
    assert seconds["unknown"] >= 15, "the training before the resumption is unknown"


def test_the_training_time_is_unknown_if_a_restart_records_no_steps() -> None:
    steps = {seconds: step for seconds, step in _RESTARTED["step"].items() if seconds < 20}
    result = restarted(**{**_RESTARTED, "step": steps, "epoch": {}})
    assert "continued at an unknown step" in result.training_time_problem
    assert (result.time_to_target, result.training_seconds, result.resumptions) == (None, None, ())


def test_a_restored_tracker_makes_the_time_to_target_known() -> None:
    clock: Values = {0: 0, 5: 5, 10: 10, 15: 15, 22: 15, 27: 20, 32: 25}
    series: dict[str, Values] = {**_RESTARTED, "train_seconds": clock}
    series |= {"restored_step": {21: 150}}
    result = restarted(**series | {"step": {0: 0, 5: 50, 10: 100, 15: 150, 22: 150, 27: 200}})
    assert result.training_time_problem == ""
    assert result.time_to_target == TimeToTarget(20, 27, 5)


def test_a_restart_from_scratch_discards_the_first_attempt() -> None:
    result = restarted(**_RESTARTED | {"epoch": {0: 0, 5: 1, 10: 2, 15: 3, 22: 0, 27: 1}})
    assert result.training_time_problem == ""
    assert result.time_to_target == TimeToTarget(5, 27, 2)


def test_a_step_above_zero_after_a_restart_is_a_resumption_too() -> None:
    steps: Values = {1: 1, 5: 50, 10: 100, 15: 150, 22: 121, 27: 170}
    series = {**_RESTARTED, "step": steps, "epoch": {}}
    result = restarted(**series)
    assert "continued at step 121" in result.training_time_problem
    assert result.time_to_target is None
    # The step numbers show which steps were repeated.
    assert [(r.step, r.discarded_steps) for r in result.resumptions] == [(120, 30)]


_DIGITS_RUN = RunRow(**_RUN, attempt=1, started_at=START, target=Target("acc", 97.0))
_STOPPED = replace(_DIGITS_RUN, state="STOPPED")
_LOSS = NotFiniteLoss("train_loss", START + 15, 61, "0")
_HOW = "rank 1 is at `load` (x.py:14); rank 0 waits for it"


def outcome(
    diagnosis: Diagnosis | None = None, /, run: RunRow = _DIGITS_RUN, **series: Any
) -> Outcome | None:
    asked = (diagnosis,) if diagnosis else ()
    context = RunContext(run, (), START + 60, diagnoses=asked)
    return evaluate(context, columns(**series)).outcome


def diagnosis(
    kind: str = "not_in_collective", reason: Any = "stopped", certainty: str = "likely"
) -> Diagnosis:
    """Return a diagnosis made 40 s after the start and 30 s after the last step."""
    evidence = replace(evidence_of(1, steps=60, quiet_seconds=30.0), at=START + 40)
    verdict = Verdict(kind, (1,), "", "", _HOW, certainty)
    return Diagnosis(1, 1, reason, "2023-11-14T22:14:00Z", True, verdict, (), (evidence,))


def test_a_target_that_was_reached() -> None:
    found = known(outcome(acc_0={10: 90, 20: 98}, train_seconds_0={10: 8, 20: 17.5}))
    text = "target reached in 17.5 s of training"
    assert found == Outcome("reached", text, "target reached", since=START + 20)


def test_the_outcome_without_a_reached_target() -> None:
    assert known(outcome(acc_0={10: 90})).kind == "not_reached"
    assert known(outcome(run=replace(_DIGITS_RUN, target=None))).kind == "completed"
    assert known(outcome(run=_STOPPED)).kind == "stopped"
    assert outcome(run=replace(_DIGITS_RUN, state="STARTED"), acc_0={10: 98}) is None


def test_a_crash_names_rank_and_error() -> None:
    reason = "rank 1 on w exited with code 1:\nTraceback\n  x\nValueError: bad"
    found = outcome(run=replace(_DIGITS_RUN, state="FAILED", reason=reason))
    text = "crashed: rank 1 on w exited with code 1: ValueError: bad"
    assert found == Outcome("crashed", text, "crashed", rank=1)


def test_a_loss_that_became_nan_outweighs_a_target_reached_later() -> None:
    run = replace(_DIGITS_RUN, not_finite=_LOSS)
    found = evaluate(RunContext(run, (), START + 60), columns(acc_0={10: 90, 20: 98}))
    text = "NaN since step 61 (train_loss)"
    assert found.outcome == Outcome("nan", text, "NaN", since=START + 15, step=61)
    assert found.time_to_target is None


def test_a_target_metric_that_stays_nan() -> None:
    found = known(outcome(acc_0={10: math.nan, 20: 90, 30: math.nan, 40: math.inf}))
    assert (found.kind, found.text, found.since) == ("nan", "NaN since 30.0 s (acc)", START + 30)
    assert known(outcome(acc_0={10: math.nan, 20: 90})).kind == "not_reached"


def test_a_run_that_was_stopped_while_it_hung() -> None:
    found = outcome(diagnosis(), run=_STOPPED, step_0={5: 1, 10: 60})
    text = f"hung after 60 steps: {_HOW}"
    assert found == Outcome("hung", text, "hung", since=START + 10, step=60, rank=1)


@pytest.mark.parametrize(
    ("diagnosis", "run", "last_step"),
    [
        (diagnosis(), _DIGITS_RUN, 10),  # finished without being stopped
        (diagnosis(), _STOPPED, 50),  # completed steps later
        (diagnosis("progressing"), _STOPPED, 10),
        (diagnosis(certainty="none"), _STOPPED, 10),
        (diagnosis(reason="failed"), replace(_DIGITS_RUN, state="FAILED"), 10),
        (diagnosis(), replace(_STOPPED, attempt=2), 10),
    ],
)
def test_no_hang(diagnosis: Diagnosis, run: RunRow, last_step: int) -> None:
    assert known(outcome(diagnosis, run=run, step_0={last_step: 60})).kind != "hung"


def test_the_goodput_ends_when_a_run_diverges_or_hangs() -> None:
    row = RankRow(rank=0, attempt=1, assigned_at=START, reported_at=START, exited_at=START + 60)
    clock = {5.0: 0, 10.0: 5, 20.0: 15, 60.0: 55}
    series = columns(train_seconds_0=clock, step_0={10: 60}, compute_seconds_0={60: 55})
    nan = RunContext(replace(_DIGITS_RUN, not_finite=_LOSS), [row], START + 60)
    seconds = known(evaluate(nan, series).goodput).seconds
    assert seconds == {"initialization": 5, "compute": 10, "diverged": 45}
    hung = RunContext(_STOPPED, [row], START + 60, diagnoses=[diagnosis()])
    assert known(evaluate(hung, series).goodput).seconds["hung"] == pytest.approx(50)


def test_a_nan_run_never_ranks_as_fastest() -> None:
    became_nan = Outcome("nan", "NaN since step 61 (train_loss)", "NaN")
    runs = [reaching(1, 2, 5.0, outcome=became_nan), reaching(2, 2, 9.0), reaching(3, 2, 9.5)]
    found = compare(runs, {run.run_id: make_facts(2) for run in runs})
    text = "run 1: NaN since step 61 (train_loss); its time to target does not count"
    assert known(found.findings).notes[0] == text
    [group] = found.groups
    assert (group.reached, known(group.training_seconds_to_target).minimum) == (2, 9.0)
