"""Records of results."""

import json
import math
from dataclasses import replace

from mlbench.contract.results import Cost, Curve, Result
from tests.support.results import make_result


def test_numbers_that_json_cannot_represent_are_none() -> None:
    cost, curve = Cost(60.0, None, 1e300, math.inf, None), Curve((1.0,), (None,), (-math.inf,))
    odd = replace(make_result(1), last_value=math.nan, cost=cost, curve=curve)
    text = json.dumps(odd.to_fields(), allow_nan=False)
    result = Result.from_fields(json.loads(text))
    assert result.last_value is None
    assert result.cost == Cost(60.0, None, 1e300, None, None)
    assert result.curve == Curve((1.0,), (None,), (None,))
