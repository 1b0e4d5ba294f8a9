"""The records of results: what JSON says of them is what they are read from."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from mlbench.records import Goal
from mlbench.results import (
    AccuracyAfterTime,
    Comparison,
    Cost,
    Curve,
    Difference,
    Group,
    Result,
    Summary,
    TimeToAccuracy,
    Value,
)

_RESULT = Result(
    run_id=7,
    name="a",
    benchmark="digits",
    state="FINISHED",
    num_workers=2,
    division="closed",
    departures=("one", "two"),
    target=Goal("acc", 97.0),
    time_to_accuracy=TimeToAccuracy(8.5, 20.0),
    accuracy_after_time=AccuracyAfterTime(7200.0, 97.5, 9.0, "training"),
    last_value=97.5,
    best_value=98.0,
    epochs=3,
    samples=1400.0,
    training_seconds=9.5,
    wall_seconds=30.0,
    samples_per_second=147.4,
    phases={"forward": 4.0, "other": 5.5},
    communication_share=0.25,
    cost=Cost(60.0, 40.0, 0.5, 30.0, 20.0),
    energy_joules=1234.5,
    curve=Curve((1.0, 20.0), (None, 8.5), (90.0, 97.0)),
)
_BARE = replace(
    _RESULT,
    benchmark="",
    division="open",
    departures=(),
    target=None,
    time_to_accuracy=None,
    accuracy_after_time=None,
    last_value=None,
    best_value=None,
    epochs=None,
    samples=None,
    training_seconds=None,
    wall_seconds=None,
    samples_per_second=None,
    phases={},
    communication_share=None,
    cost=None,
    energy_joules=None,
    curve=None,
)
_SUMMARY = Summary(3, 12.0, 2, 12.0, 10.0, 20.0, 5.3)
_GROUP = Group(
    label="2 workers",
    num_workers=2,
    run_ids=(7, 8, 9),
    reached=3,
    training_seconds_to_accuracy=_SUMMARY,
    wall_seconds_to_accuracy=replace(_SUMMARY, mean=None, left_out=0),
    accuracy_after_time=_SUMMARY,
    samples_per_second=_SUMMARY,
    communication_share=_SUMMARY,
    worker_seconds=_SUMMARY,
    energy_joules=None,
    phases={"forward": 4.0},
    speedup=1.0,
    efficiency=1.0,
    throughput_speedup=1.0,
    throughput_efficiency=None,
)
_COMPARISON = Comparison(
    comparable="unknown",
    differences=(
        Difference("batch_size", "unknown", (Value("128", (7, 8)), Value("64", (9,))), "words"),
    ),
    groups=(_GROUP,),
    results=(_RESULT, _BARE),
)


@pytest.mark.parametrize("result", [_RESULT, _BARE])
def test_a_result_comes_back_from_json(result: Result) -> None:
    assert Result.from_fields(json.loads(json.dumps(result.to_fields()))) == result


def test_a_comparison_comes_back_from_json() -> None:
    fields = json.loads(json.dumps(_COMPARISON.to_fields()))
    assert Comparison.from_fields(fields) == _COMPARISON


def with_more(fields: Any) -> Any:
    """Return JSON with a further field in every object but the phases, whose names are data."""
    if isinstance(fields, list):
        return [with_more(one) for one in fields]
    if not isinstance(fields, dict):
        return fields
    inner = {name: one if name == "phases" else with_more(one) for name, one in fields.items()}
    return inner | {"new": 1}


def test_what_a_newer_master_says_besides_is_passed_over() -> None:
    assert Comparison.from_fields(with_more(_COMPARISON.to_fields())) == _COMPARISON


def test_numbers_that_json_cannot_hold_are_none() -> None:
    odd = replace(
        _RESULT,
        last_value=math.nan,
        cost=Cost(60.0, None, 1e300, math.inf, None),
        curve=Curve((1.0,), (None,), (-math.inf,)),
    )
    text = json.dumps(odd.to_fields(), allow_nan=False)
    found = Result.from_fields(json.loads(text))
    assert found.last_value is None
    assert found.cost == Cost(60.0, None, 1e300, None, None)
    assert found.curve == Curve((1.0,), (None,), (None,))
