"""The records of results: what JSON says of them is what they are read from."""

import json
import math
from dataclasses import replace
from typing import Any

from mlbench.comparisons import Comparison
from mlbench.results import Cost, Curve, Result
from tests.support.results import make_aimless, make_comparison, make_difference, make_result


def with_more(fields: Any) -> Any:
    """Return JSON with a further field in every object but those whose names are data."""
    if isinstance(fields, list):
        return [with_more(one) for one in fields]
    if not isinstance(fields, dict):
        return fields
    inner = {
        name: one if name in ("phases", "swept") else with_more(one) for name, one in fields.items()
    }
    return inner | {"new": 1}


def test_a_comparison_comes_back_from_json_whatever_a_newer_master_adds() -> None:
    comparison = replace(
        make_comparison([make_result(1), make_aimless(2, 2)]),
        comparable="unknown",
        differences=(make_difference("batch_size", "unknown", "words"),),
    )
    fields = json.loads(json.dumps(comparison.to_fields()))
    assert Comparison.from_fields(fields) == comparison
    assert Comparison.from_fields(with_more(fields)) == comparison


def test_numbers_that_json_cannot_hold_are_none() -> None:
    odd = replace(
        make_result(1),
        last_value=math.nan,
        cost=Cost(60.0, None, 1e300, math.inf, None),
        curve=Curve((1.0,), (None,), (-math.inf,)),
    )
    text = json.dumps(odd.to_fields(), allow_nan=False)
    result = Result.from_fields(json.loads(text))
    assert result.last_value is None
    assert result.cost == Cost(60.0, None, 1e300, None, None)
    assert result.curve == Curve((1.0,), (None,), (None,))
