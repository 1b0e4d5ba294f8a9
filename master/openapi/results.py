"""The operations that judge runs: one alone, and several side by side."""

from pydantic.dataclasses import dataclass

from master.openapi.operation import Answer, Operation, Parameter, View
from master.resources.results import LARGEST, MOST_RUNS, CompareResource, ResultResource
from mlbench.results import (
    AccuracyAfterTime,
    Comparison,
    Cost,
    Curve,
    Difference,
    Group,
    Result,
    Summary,
    Target,
    TimeToAccuracy,
    Value,
)

_NUMBER = r"[+-]?[0-9]{1,50}(\.[0-9]{1,50})?([eE][+-]?[0-9]{1,2})?"
_ID = "[0-9]{1,18}"

_WISHES = (
    Parameter(
        "goal",
        {"type": "string", "pattern": rf"^[^ \x00][^\x00]*(>=|<=){_NUMBER}$"},
        "The target, `METRIC>=VALUE` or `METRIC<=VALUE`; by default each run's own goal.",
        example="val_global_Prec@1>=97",
    ),
    Parameter(
        "after",
        {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST},
        "The seconds of accuracy after time; by default the run's deadline, else two hours.",
        example=3600,
    ),
    Parameter(
        "price",
        {"type": "number", "minimum": 0, "maximum": LARGEST},
        "What a worker costs in a second, in whatever currency.",
        example=0.0001,
    ),
)

_RESULT = Result(
    run_id=1,
    name="first",
    benchmark="digits",
    state="FINISHED",
    num_workers=2,
    division="closed",
    departures=(),
    target=Target("val_global_Prec@1", 97.0),
    time_to_accuracy=TimeToAccuracy(7.52, 10.31),
    accuracy_after_time=AccuracyAfterTime(3600.0, 97.33, 7.52, "training"),
    last_value=97.33,
    best_value=97.33,
    epochs=8,
    samples=11_488.0,
    training_seconds=7.53,
    wall_seconds=11.25,
    samples_per_second=1525.6,
    phases={"forward": 2.1, "backward": 3.9, "communication": 0.9, "other": 0.63},
    communication_share=0.12,
    cost=Cost(23.4, 21.6, 0.0001, 0.00234, 0.00216),
    energy_joules=None,
    curve=Curve((3.02, 10.31), (0.98, 7.52), (71.6, 97.33)),
)
_TIMES = Summary(
    count=1,
    mean=7.52,
    left_out=0,
    median=7.52,
    minimum=7.52,
    maximum=7.52,
    standard_deviation=None,
)
_GROUP = Group(
    label="2 workers",
    num_workers=2,
    run_ids=(1,),
    reached=1,
    training_seconds_to_accuracy=_TIMES,
    wall_seconds_to_accuracy=None,
    accuracy_after_time=None,
    samples_per_second=None,
    communication_share=None,
    worker_seconds=None,
    energy_joules=None,
    phases={"forward": 2.1},
    speedup=1.0,
    efficiency=1.0,
    throughput_speedup=None,
    throughput_efficiency=None,
)
_COMPARISON = Comparison(
    comparable="yes",
    differences=(
        Difference(
            "learning_rate",
            "no",
            (Value("0.05", (1,)), Value("0.1", (3,))),
            "learning_rate is 0.05 in run 1 and 0.1 in run 3",
        ),
    ),
    groups=(_GROUP,),
    results=(_RESULT,),
)


def _view(record: type) -> type:
    """Return a record as the document's schemas have them: with no other fields, and in words."""
    return dataclass(record, frozen=True, config=View.model_config)


OPERATIONS = (
    Operation(
        ResultResource,
        "get",
        "/api/runs/{run_id}/result/",
        name="get_result",
        parameters=_WISHES,
        answer=Answer("What the run reached.", _view(Result), _RESULT.to_fields()),
        errors=(404, 502, 503),
    ),
    Operation(
        CompareResource,
        "get",
        "/api/compare/",
        name="compare_runs",
        parameters=(
            Parameter(
                "runs",
                {"type": "string", "pattern": f"^{_ID}(,{_ID}){{0,{MOST_RUNS - 1}}}$"},
                f"The ids of 1 to {MOST_RUNS} runs, each once.",
                example="1,3",
                required=True,
            ),
            *_WISHES,
        ),
        answer=Answer("The runs side by side.", _view(Comparison), _COMPARISON.to_fields()),
        errors=(404, 502, 503),
    ),
)
