"""A restarted run resumes from its last checkpoint, and its curves lack the repeated steps."""

import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.local.home import Home
from tests.support.resuming import EPOCH_STEPS, SAVED_EVERY, train

_WORKERS, _EPOCHS, _KILLS = 3, 2, 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_training_is_the_one_that_was_not(client: ApiClient, stack: Home) -> None:
    whole, killed = (train(client, stack, _WORKERS, _EPOCHS, kills) for kills in (0, _KILLS))
    assert len(whole.curves[f"{names.TRAIN_LOSS} @ 0"]) == _EPOCHS * EPOCH_STEPS
    assert killed.curves == whole.curves, "to the last bit"
    assert killed.figures == whole.figures
    resumptions = killed.result.resumptions
    assert [resumption.stated for resumption in resumptions] == [True] * _KILLS
    lost = [killed.discarded.get(f"{names.TRAIN_LOSS} @ {rank}", []) for rank in range(_WORKERS)]
    again = [len(losses) for losses in lost]
    assert max(again) <= sum(resumption.discarded_steps for resumption in resumptions) <= sum(again)
    assert whole.result.checkpoints is None, "a run that is not restarted saves none"
    # Every 4 steps, and after each epoch; one that is killed may save and not say so.
    most = (_EPOCHS * EPOCH_STEPS - 1) // SAVED_EVERY + _EPOCHS
    assert killed.result.checkpoints is not None
    assert most - _KILLS <= killed.result.checkpoints.count <= most
