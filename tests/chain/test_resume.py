"""A restarted run goes on from its last checkpoint."""

import pytest

from mlbench import ApiClient, names
from mlbench.home import Home
from mlbench.records import Run
from tests.conftest import wait_for
from tests.support.stacks import assert_counted, run_to_end, training

_EPOCHS = 20


def epochs_of(client: ApiClient, run: Run) -> list[float]:
    """Return the epochs that rank 0 has begun, in both attempts."""
    series = client.get_run_metrics(run.id, metric_filter=f"{names.EPOCH} @ 0").result().value
    return [point.number for points in series.values() for point in points]


@pytest.mark.slow
def test_a_killed_training_goes_on_from_its_checkpoint(client: ApiClient, stack: Home) -> None:
    args = {"epochs": str(_EPOCHS), "learning_rate": "1e-6"}
    order = client.create_run("killed", 2, 1, benchmark="digits", max_restarts=1, args=args)
    run = order.result().value
    wait_for(lambda: len(epochs_of(client, run)) > 2, what="two epochs are done")
    [victim] = training(stack, rank=1)
    victim.kill()
    ended = run_to_end(client, run, seconds=200)
    assert (ended.state, ended.attempt) == ("FINISHED", 2), ended.reason
    assert_counted(ended)
    epochs = epochs_of(client, run)
    assert epochs.count(0) == 1, "it did not begin anew"
    assert sorted({*epochs}) == list(range(_EPOCHS))
