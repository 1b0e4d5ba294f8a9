"""What a restarted run did again is not part of its line."""

import pytest

from mlbench.contract.results import Resumption
from mlbench.evaluation.inputs import Column, Columns
from mlbench.evaluation.timeline import lineage_of

_BEGUN = (0, 1000, 2000)


def series(**metrics: dict[int, float]) -> Columns:
    """Return the columns of rank 0: values by time."""
    return {name: {"0": Column(list(one), list(one.values()))} for name, one in metrics.items()}


def test_a_single_attempt_has_no_other_line() -> None:
    columns = series(step={10: 5, 20: 4, 30: 3}, restored_step={40: 2})
    line = lineage_of(columns, [0])
    assert line.kept(columns) is columns
    assert line.resumptions == ()


def test_what_came_after_the_checkpoint_is_left_out_with_or_without_a_step() -> None:
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
        # It began anew, and then went on from a step that only its third attempt can know.
        ((1010, 0), (2010, 2), [1, 2, 3, 3], [(0, 3), (2, 1)]),
        # The second checkpoint could not be read: the one of the first attempt could.
        ((1010, 2), (2010, 1), [1, 3], [(2, 1), (1, 2)]),
    ],
)
def test_a_line_may_go_back_several_times(
    second: tuple[int, float],
    third: tuple[int, float],
    left: list[float],
    resumptions: list[tuple[int, int]],
) -> None:
    columns = series(
        step={10: 1, 20: 2, 30: 3, 1020: 1, 1030: 2, 1040: 3, 2020: 3, 2030: 3},
        checkpoint_step={11: 1, 21: 2, 1031: 2},
        restored_step=dict([second, third]),
    )
    if second[1]:  # it goes on, and so does not take steps 1 and 2 again
        columns = {**columns, **series(step={10: 1, 20: 2, 30: 3, 1040: 3, 2020: 3})}
        columns = {**columns, **series(checkpoint_step={11: 1, 21: 2})}
    line = lineage_of(columns, _BEGUN)
    assert line.kept(columns)["step"]["0"].values == left
    assert [(r.step, r.discarded_steps) for r in line.resumptions] == resumptions


def test_a_step_that_goes_back_tells_what_code_of_ones_own_does_not() -> None:
    columns = series(step={10: 1, 20: 2, 30: 3, 40: 4, 1010: 3, 1020: 4, 2010: 5})
    line = lineage_of(columns, _BEGUN)
    assert line.discarded == {"0": [(30, 1000)]}
    assert line.resumptions == (Resumption(2, 2, False),), "the third attempt did not go back"


def test_each_rank_has_its_own_intervals_and_the_run_the_most_steps() -> None:
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
