"""Runs in the format of MLPerf's log: keys, values and times."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from mlbench.contract.records import ReportedMachine, Target
from mlbench.evaluation.inputs import Criteria, RankRow, RunRow
from mlbench.evaluation.result import RunContext
from mlbench_sources import mllog
from tests.mlbench.evaluation.making import START, columns

_RUN: dict[str, Any] = {
    "id": 7,
    "name": "a",
    "benchmark": "digits",
    "num_workers": 2,
    "state": "FINISHED",
    "attempt": 1,
    "target": Target("acc", 97.0),
    "created_at": START - 1,
    "started_at": START,
    "finished_at": START + 60,
    "settings": {"seed": 3, "batch_size": 128, "train_samples": 1433, "validation_samples": 364},
}
_MACHINE = ReportedMachine(cpu_model="A CPU")
_RANKS = [RankRow(attempt=1, rank=rank, machine=_MACHINE) for rank in (0, 1)]
_CONTEXT = RunContext(RunRow(**_RUN), _RANKS, START + 60)
_SERIES: dict[str, Any] = {
    "epoch_0": {2: 0, 12: 1, 25: 2},
    "acc_0": {11: 90, 24: 97, 36: 98},
    # The three evaluations took 1, 3 and 2 s.
    "train_seconds_0": {2: 0, 11: 8, 12: 8.5, 24: 17.5, 25: 18, 36: 27},
}


def written(context: RunContext = _CONTEXT, **series: Any) -> list[dict[str, Any]]:
    lines = mllog.write(context, columns(**series))
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]


def timed(context: RunContext = _CONTEXT, **series: Any) -> list[tuple[float, str, Any]]:
    """Return seconds, key, and value or metadata of all events except settings."""
    keys = ("init", "run", "epoch", "eval")
    return [
        (one["time_ms"] / 1000 - START, one["key"], one["value"] or [*one["metadata"].values()])
        for one in written(context, **series)
        if one["key"].partition("_")[0] in keys and one["key"] != "eval_samples"
    ]


def test_the_log_ends_when_the_run_reaches_its_target() -> None:
    assert timed(**_SERIES) == [
        (0, "init_start", []),
        (2, "init_stop", []),
        (2, "run_start", []),
        (2, "epoch_start", [1]),
        (10, "eval_start", [1]),
        (11, "eval_accuracy", 90),
        (11, "eval_stop", [1]),
        (12, "epoch_stop", [1]),
        (12, "epoch_start", [2]),
        (21, "eval_start", [2]),
        (24, "eval_accuracy", 97),
        (24, "eval_stop", [2]),
        (24, "epoch_stop", [2]),
        (24, "run_stop", ["success"]),
    ]


def test_a_target_has_its_direction() -> None:
    for lower in (False, True):
        context = replace(_CONTEXT, criteria=Criteria(Target("acc", 95.0, lower_is_better=lower)))
        [target] = [one for one in written(context, **_SERIES) if one["key"] == "target_accuracy"]
        assert (target["value"], target["metadata"]) == (95.0, {"lower_is_better": lower})
    assert timed(context, **_SERIES)[-1] == (11, "run_stop", ["success"])


def test_a_run_that_missed_its_target_is_aborted() -> None:
    short = _SERIES | {"acc_0": {11: math.nan, 24: 96}}
    *_, epoch, run = timed(**short)
    assert (epoch, run) == ((60, "epoch_stop", [3]), (60, "run_stop", ["aborted"]))
    assert [one["value"] for one in written(**short) if one["key"] == "eval_accuracy"] == [None, 96]
    failed = replace(_CONTEXT, run=RunRow(**_RUN | {"state": "FAILED"}))
    assert timed(failed, **_SERIES)[-1] == (60, "run_stop", ["aborted"])


def test_an_active_run_has_no_stop_event() -> None:
    active = RunRow(**_RUN | {"state": "STARTED", "finished_at": None})
    last = timed(replace(_CONTEXT, run=active), **_SERIES | {"acc_0": {11: 90}})[-1]
    assert last == (25, "epoch_start", [3])


def test_unknown_facts_are_left_out() -> None:
    facts = {event["key"]: event["value"] for event in written() if event["value"] is not None}
    assert facts == {
        "submission_benchmark": "digits",
        "submission_division": "closed",
        "submission_org": "MLBench",
        "submission_platform": "2 workers, A CPU",
        "submission_status": "research",
        "seed": 3,
        "global_batch_size": 128,
        "train_samples": 1433,
        "eval_samples": 364,
        "target_accuracy": 97.0,
    }
    assert timed() == [(0, "init_start", [])]
    ordered = RunRow(**_RUN | {"started_at": None, "finished_at": None, "settings": None})
    assert timed(replace(_CONTEXT, run=ordered)) == []
    without_clock = timed(epoch_0={2: 0}, acc_0={11: 98})
    assert (11, "eval_start", [1]) in without_clock


@pytest.mark.parametrize("values", [{11: 90, 24: 97}, {11: math.nan, 24: 96}])
def test_repeated_epochs_of_a_restarted_run_appear_twice(values: dict[float, float]) -> None:
    again = timed(**_SERIES | {"epoch_0": {2: 0, 12: 1, 20: 1}, "acc_0": values})
    assert [what for _, key, what in again if key == "epoch_start"] == [[1], [2], [2]]
