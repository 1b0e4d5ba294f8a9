"""Outcomes of runs: what they achieved, whatever the state of their processes."""

import math
from dataclasses import replace
from typing import Any

import pytest

from mlbench.contract.autopsy import Autopsy, Evidence, Verdict
from mlbench.contract.records import Goal, Outcome
from mlbench.contract.results import Result, TimeToAccuracy
from mlbench.evaluation.comparison import compare
from mlbench.evaluation.inputs import RankRow, RunRow
from mlbench.evaluation.result import RunContext, evaluate
from tests.mlbench.evaluation.making import START, columns, make_facts, reaching
from tests.support.known import known

_RUN = RunRow(
    id=7,
    name="a",
    benchmark="digits",
    state="FINISHED",
    num_workers=2,
    attempt=1,
    started_at=START,
    goal=Goal("acc", 97.0),
)
_LOSS = {"metric": "train_loss", "rank": "0", "step": 61, "since": START + 15}
_HOW = "rank 1 is at `load` (x.py:14); rank 0 waits for it"


def outcome(autopsy: Autopsy | None = None, /, run: RunRow = _RUN, **series: Any) -> Outcome | None:
    asked = (autopsy,) if autopsy else ()
    context = RunContext(run, (), START + 60, autopsies=asked)
    return evaluate(context, columns(**series)).outcome


def diagnosis(kind: str = "behind", reason: Any = "stopped", certainty: str = "likely") -> Autopsy:
    """Return what was found 40 s after the start, 30 s after the last step."""
    evidence = Evidence.from_fields(
        {
            **dict.fromkeys(("processes", "threads", "collectives", "gpu_errors", "missing"), ()),
            **dict.fromkeys(("stacks_by", "stdout_end", "stderr_end"), ""),
            **dict.fromkeys(("memory_bytes", "memory_limit_bytes", "throttled_seconds")),
            **{"rank": 1, "at": START + 40, "gathered_in_seconds": 0.1, "steps": 60},
            **{"exit_code": None, "out_of_memory_kills": 0, "quiet_seconds": 30.0},
        }
    )
    verdict = Verdict(kind, (1,), "", "", _HOW, certainty)
    return Autopsy(1, 1, reason, "2023-11-14T22:14:00Z", True, verdict, (), (evidence,))


def test_a_target_that_was_reached() -> None:
    found = known(outcome(acc_0={10: 90, 20: 98}, train_seconds_0={10: 8, 20: 17.5}))
    text = "target reached in 17.5 s of training"
    assert found == Outcome("reached", text, "target reached", since=START + 20)


def test_the_outcome_without_a_reached_target() -> None:
    assert known(outcome(acc_0={10: 90})).kind == "not_reached"
    assert known(outcome(run=replace(_RUN, goal=None))).kind == "completed"
    assert known(outcome(run=replace(_RUN, state="STOPPED"))).kind == "stopped"
    assert outcome(run=replace(_RUN, state="STARTED"), acc_0={10: 98}) is None


def test_a_crash_names_rank_and_error() -> None:
    reason = "rank 1 on w exited with code 1:\nTraceback\n  x\nValueError: bad"
    found = outcome(run=replace(_RUN, state="FAILED", reason=reason))
    text = "crashed: rank 1 on w exited with code 1: ValueError: bad"
    assert found == Outcome("crashed", text, "crashed", rank=1)


def test_a_loss_that_became_nan_outweighs_a_target_reached_later() -> None:
    run = replace(_RUN, not_finite=_LOSS)
    found = evaluate(RunContext(run, (), START + 60), columns(acc_0={10: 90, 20: 98}))
    text = "NaN since step 61 (train_loss)"
    assert found.outcome == Outcome("nan", text, "NaN", since=START + 15, step=61)
    assert found.time_to_accuracy is None


def test_a_run_that_ended_with_nan_has_no_time_that_comparisons_count() -> None:
    run = replace(_RUN, not_finite=_LOSS)
    found = evaluate(RunContext(run, (), START + 60), columns(acc_0={10: 98}))
    assert known(found.time_to_accuracy).wall_seconds == 10.0
    assert (found.valid_time_to_accuracy, found.seconds_to_accuracy) == (None, None)


def test_a_target_metric_that_stays_nan() -> None:
    found = known(outcome(acc_0={10: math.nan, 20: 90, 30: math.nan, 40: math.inf}))
    assert (found.kind, found.text, found.since) == ("nan", "NaN since 30.0 s (acc)", START + 30)
    assert known(outcome(acc_0={10: math.nan, 20: 90})).kind == "not_reached"


def test_a_run_that_was_stopped_while_it_hung() -> None:
    run = replace(_RUN, state="STOPPED")
    found = outcome(diagnosis(), run=run, step_0={5: 1, 10: 60})
    assert found == Outcome(
        "hung", f"hung after 60 steps: {_HOW}", "hung", since=START + 10, step=60
    )


@pytest.mark.parametrize(
    ("autopsy", "run", "last_step"),
    [
        (diagnosis(), _RUN, 10),  # finished by itself
        (diagnosis(), replace(_RUN, state="STOPPED"), 50),  # did steps later
        (diagnosis("going"), replace(_RUN, state="STOPPED"), 10),
        (diagnosis(certainty="none"), replace(_RUN, state="STOPPED"), 10),
        (diagnosis(reason="failed"), replace(_RUN, state="FAILED"), 10),
        (diagnosis(), replace(_RUN, state="STOPPED", attempt=2), 10),
    ],
)
def test_no_hang(autopsy: Autopsy, run: RunRow, last_step: int) -> None:
    assert known(outcome(autopsy, run=run, step_0={last_step: 60})).kind != "hung"


def test_the_goodput_ends_where_a_run_diverges_or_hangs() -> None:
    row = RankRow(rank=0, attempt=1, assigned_at=START, reported_at=START, exited_at=START + 60)
    series = columns(
        train_seconds_0={5: 0, 10: 5, 20: 15, 60: 55}, step_0={10: 60}, compute_seconds_0={60: 55}
    )
    nan = RunContext(replace(_RUN, not_finite=_LOSS), [row], START + 60)
    assert known(evaluate(nan, series).goodput).seconds["diverged"] == pytest.approx(45)
    stopped = replace(_RUN, state="STOPPED")
    hung = RunContext(stopped, [row], START + 60, autopsies=[diagnosis()])
    assert known(evaluate(hung, series).goodput).seconds["hung"] == pytest.approx(50)


def test_a_nan_run_never_ranks_as_fastest() -> None:
    nan = replace(
        reaching(1, 2, 5.0), outcome=Outcome("nan", "NaN since step 61 (train_loss)", "NaN")
    )
    others: list[Result] = [reaching(2, 2, 9.0), reaching(3, 2, 9.5)]
    assert nan.time_to_accuracy == TimeToAccuracy(5.0, 10.0)
    runs = [nan, *others]
    found = compare(runs, {run.run_id: make_facts(2) for run in runs})
    text = "run 1: NaN since step 61 (train_loss); its time to accuracy does not count"
    assert known(found.judgement).notes[0] == text
    [group] = found.groups
    assert group.reached == 2
    assert known(group.training_seconds_to_accuracy).minimum == 9.0
