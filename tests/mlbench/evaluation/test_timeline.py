"""The lineage of a restarted run excludes repeated steps."""

from typing import Any

import pytest

from mlbench.contract.results import Resumption
from mlbench.evaluation.inputs import Column, Columns
from mlbench.evaluation.timeline import lineage_of

_BEGUN = (0, 1000, 2000)


def series(**metrics: dict[int, float]) -> Columns:
    """Return the columns of rank 0: values by time."""
    return {name: {"0": Column(list(one), list(one.values()))} for name, one in metrics.items()}


def test_a_single_attempt_discards_nothing() -> None:
    columns = series(step={10: 5, 20: 4, 30: 3}, restored_step={40: 2})
    line = lineage_of(columns, [0])
    assert line.kept(columns) is columns
    assert line.resumptions == ()


def test_samples_after_the_checkpoint_are_discarded_with_or_without_a_step() -> None:
    columns = series(
        step={10: 1, 20: 2, 31: 2, 40: 3, 1100: 2, 1110: 3, 1120: 4},
        checkpoint_step={30: 2, 1130: 4},
        restored_step={1050: 2},
        epoch={5: 0, 31: 1, 35: 9},
        noted={30: 1.0, 45: 2.0, 1020: 3.0, 1050: 4.0},
    )
    line = lineage_of(columns, _BEGUN[:2])
    assert line.discarded == {"0": [(31, 1050)]}
    assert line.resumptions == (Resumption(2, 1, True),)
    kept = line.kept(columns)
    assert kept["step"]["0"].values == [1, 2, 2, 3, 4]
    assert kept["epoch"]["0"].values == [0]
    assert kept["noted"]["0"].times_us == [30, 1050]


@pytest.mark.parametrize(
    ("second", "third", "left", "resumptions"),
    [
        # The second attempt starts from scratch. The third attempt resumes from a step that the
        # second one has reached again.
        ((1010, 0), (2010, 2), [1, 2, 3, 3], [(0, 3), (2, 1)]),
        # The second checkpoint was unreadable, so the third attempt restores the first one.
        ((1010, 2), (2010, 1), [1, 3], [(2, 1), (1, 2)]),
    ],
)
def test_a_run_may_be_resumed_several_times(
    second: tuple[int, float], third: tuple[int, float], left: list[float], resumptions: Any
) -> None:
    columns = series(
        step={10: 1, 20: 2, 30: 3, 1020: 1, 1030: 2, 1040: 3, 2020: 3, 2030: 3},
        checkpoint_step={11: 1, 21: 2, 1031: 2},
        restored_step=dict([second, third]),
    )
    if second[1]:  # a resumed attempt does not repeat steps 1 and 2
        columns = {**columns, **series(step={10: 1, 20: 2, 30: 3, 1040: 3, 2020: 3})}
        columns = {**columns, **series(checkpoint_step={11: 1, 21: 2})}
    line = lineage_of(columns, _BEGUN)
    assert line.kept(columns)["step"]["0"].values == left
    assert [(r.step, r.discarded_steps) for r in line.resumptions] == resumptions


def test_a_decreasing_step_number_reveals_a_resumption() -> None:
    columns = series(step={10: 1, 20: 2, 30: 3, 40: 4, 1010: 3, 1020: 4, 2010: 5})
    line = lineage_of(columns, _BEGUN)
    assert line.discarded == {"0": [(30, 1000)]}
    assert line.resumptions == (Resumption(2, 2, False),), "the third attempt did not repeat steps"


def test_intervals_are_per_rank_and_the_run_has_the_most_steps() -> None:
    columns = {
        **series(checkpoint_step={11: 1}),
        "restored_step": {"0": Column([1050], [1]), "1": Column([1060], [1])},
        "step": {
            "0": Column([10, 20, 30, 1100], [1, 2, 3, 2]),
            "1": Column([12, 22, 1101], [1, 2, 2]),
        },
    }
    line = lineage_of(columns, _BEGUN[:2])
    assert line.discarded == {"0": [(12, 1050)], "1": [(22, 1060)]}
    assert line.resumptions == (Resumption(1, 2, True),)
