"""``compare/verdict.js``: whether runs can be compared, in words."""

from collections.abc import Sequence
from typing import Any

from tests.web.js.conftest import Call

_MODULE = "js/compare/verdict.js"
_TARGET = {"metric": "val_global_Prec@1", "value": 97, "lower_is_better": False}


def _comparison(
    answer: str, *means: float | None, differences: Sequence[object] = ()
) -> dict[str, Any]:
    return {
        "comparable": answer,
        "differences": list(differences),
        "groups": [
            {"label": f"group {i}", "training_seconds_to_accuracy": mean and {"mean": mean}}
            for i, mean in enumerate(means)
        ],
        "results": [
            {"run_id": i, "target": _TARGET, "departures": ["it is late"]}
            for i, _ in enumerate(means)
        ],
    }


def _verdict(compute: Call, comparison: object) -> Any:
    return compute(_MODULE, "(m, comparison) => m.toVerdict(comparison)", comparison)


def test_the_fastest_is_named_with_its_lead(compute: Call) -> None:
    verdict = _verdict(compute, _comparison("yes", 10.0, 2.5, 5.0))
    assert verdict["title"] == "These runs can be compared"
    assert verdict["notes"] == [
        "Fastest: group 1 reached val_global_Prec@1 ≥ 97 % after 2.50 s of training, "
        "4 times as fast as group 0.",
        "Runs 0, 1, 2: it is late",
    ]


def test_what_cannot_be_compared_has_reasons_and_no_winner(compute: Call) -> None:
    differences = [
        {"breaks": "no", "text": "c"},
        {"breaks": "unknown", "text": "b"},
        {"breaks": "yes", "text": "a"},
    ]
    verdict = _verdict(compute, _comparison("no", 1.0, 2.0, differences=differences))
    assert verdict["answer"] == "no"
    assert verdict["reasons"] == ["a", "b"]
    assert verdict["notes"] == ["Runs 0, 1: it is late"]


def test_one_run_is_no_comparison(compute: Call) -> None:
    assert _verdict(compute, _comparison("yes", 1.0))["title"] == "Two runs make a comparison"
