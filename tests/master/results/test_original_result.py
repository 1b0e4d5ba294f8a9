"""The sentence of the original MLBench's tasks, from a result."""

import pytest

from mlbench.contract.names import VAL_ACCURACY, VAL_LOSS, VAL_PERPLEXITY
from mlbench.contract.records import Target
from mlbench.contract.results import TimeToTarget
from mlbench_master.results.original_result import sentence
from tests.mlbench.evaluation.making import make_result

_REACHED = TimeToTarget(3.1044, 4.0, 7)
_PHASES = {"forward": 1.0, "backward": 1.5, "optimizer": 0.25, "communication": 0.125, "data": 0.5}


@pytest.mark.parametrize(
    ("metric", "goal", "begin"),
    [
        (VAL_ACCURACY, 97.0, "97% Top 1 Validation Accuracy reached in 3.104 seconds"),
        (VAL_PERPLEXITY, 6.5, "Validation Perplexity of 6.5 reached in 3.104 seconds"),
    ],
)
def test_it_has_the_target_and_the_times_of_phases(metric: str, goal: float, begin: str) -> None:
    result = make_result(1, target=Target(metric, goal), time_to_target=_REACHED, phases=_PHASES)
    assert sentence(result) == (
        f"{begin}, Compute: 2.750 seconds, Communication: 0.125 seconds, Pre-processing: 0.500 "
        "seconds"
    )


def test_compiled_steps_have_no_phases_to_tell() -> None:
    target = Target(VAL_ACCURACY, 97.0)
    result = make_result(1, target=target, time_to_target=_REACHED, phases={"compute": 3.0})
    assert sentence(result) == "97% Top 1 Validation Accuracy reached in 3.104 seconds"


def test_a_run_without_a_target_of_the_original_has_no_original_result() -> None:
    for target, reached in (
        (Target(VAL_ACCURACY, 97.0), None),
        (Target(VAL_LOSS, 0.1), _REACHED),
        (Target(VAL_ACCURACY, 97.0), TimeToTarget(None, 4.0, 7)),
        (None, None),
    ):
        assert sentence(make_result(1, target=target, time_to_target=reached)) == ""
