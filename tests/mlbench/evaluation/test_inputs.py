"""Results of runs reported by MLBench's original tracker."""

from collections.abc import Mapping

import pytest

from mlbench.contract.records import Target
from mlbench.contract.results import Result, TimeToTarget
from mlbench.evaluation.inputs import add_totals
from mlbench.evaluation.result import RunContext, evaluate
from tests.mlbench.evaluation.making import START, columns, make_run

_RUN = make_run(state="FINISHED", started_at=START, target=Target("val_global_Prec@1", 80.0))
_CONTEXT = RunContext(run=_RUN, ranks=(), ended_at=START + 60)


Values = Mapping[float, float]


def evaluated(**series: Values) -> Result:
    accuracy: dict[str, Values] = {"val_global_Prec@1_0": {12: 70, 22: 81}}
    return evaluate(_CONTEXT, add_totals(columns(**accuracy, **series)))


def test_training_time_and_phases_are_the_sums_of_the_epochs() -> None:
    result = evaluated(
        CumulativeTrainTimeEpoch_0={10: 8, 20: 7},
        CumulativeTrainTimeEpoch_1={10: 8, 20: 9},
        fwd_pass_0={10: 2, 20: 2},
        comp_loss_0={10: 0.5, 20: 0.5},
        fwd_pass_1={10: 3, 20: 4},
        backprop_0={10: 1, 20: 1},
        backprop_1={10: 1, 20: 1},
        agg_0={10: 4, 20: 3},
        agg_1={10: 2, 20: 1},
    )
    assert result.training_seconds == pytest.approx((15 + 17) / 2)
    phases = {"forward": 6.0, "backward": 2.0, "communication": 5.0, "other": 3.0}
    assert result.phases == pytest.approx(phases)
    assert result.communication_share == pytest.approx(5 / 16)


def test_the_time_to_target_is_reported_by_rank_0() -> None:
    """The training time of the epoch may end later and include evaluation."""
    result = evaluated(
        CumulativeTrainTimeEpoch_0={10: 8, 30: 9},
        TotalCumulativeTrainTime_0={25: 15.5},
        global_cum_agg_0={26: 3},
        agg_0={10: 2, 30: 2},
    )
    assert result.time_to_target == TimeToTarget(15.5, 22.0)
    assert result.training_seconds == 17.0
    assert result.phases["communication"] == 4.0


def test_other_names_are_not_replaced() -> None:
    found = evaluated(CumulativeTrainTimeEpoch_0={10: 8}, agg_0={10: 3}, mine_0={10: 4})
    assert found.phases == {"communication": 3.0, "other": 5.0}
    # Totals with current names, and other code with those of the original.
    found = evaluated(CumulativeTrainTimeEpoch_0={10: 8}, train_seconds_0={10: 3})
    assert found.training_seconds == 3.0
    found = evaluated(backward_0={10: 8}, forward_0={10: 3})
    assert (found.phases, found.training_seconds) == ({}, None)
