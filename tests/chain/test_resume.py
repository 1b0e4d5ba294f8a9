"""A restarted run resumes from its last checkpoint, and its curves lack the repeated steps."""

import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.local.home import Home
from tests.support.resuming import EPOCH_STEPS, SAVED_EVERY, train

_WORKERS, _EPOCHS, _KILLS = 3, 2, 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_training_has_the_curves_of_an_uninterrupted_one(
    client: ApiClient, stack: Home
) -> None:
    whole, killed = (train(client, stack, _WORKERS, _EPOCHS, kills) for kills in (0, _KILLS))
    assert len(whole.curves[f"{names.TRAIN_LOSS} @ 0"]) == _EPOCHS * EPOCH_STEPS
    assert killed.curves == whole.curves, "to the last bit"
    assert killed.figures == whole.figures
    resumptions = killed.result.resumptions
    assert [resumption.stated for resumption in resumptions] == [True] * _KILLS
    lost = [killed.discarded.get(f"{names.TRAIN_LOSS} @ {rank}", []) for rank in range(_WORKERS)]
    repeated = [len(losses) for losses in lost]
    assert (
        max(repeated)
        <= sum(resumption.discarded_steps for resumption in resumptions)
        <= sum(repeated)
    )
    assert whole.result.checkpoints is None, "a run without restarts saves no checkpoint"
    # A checkpoint is saved every 4 steps and after each epoch. A kill may prevent its report.
    maximum = (_EPOCHS * EPOCH_STEPS - 1) // SAVED_EVERY + _EPOCHS
    assert killed.result.checkpoints is not None
    assert maximum - _KILLS <= killed.result.checkpoints.count <= maximum
