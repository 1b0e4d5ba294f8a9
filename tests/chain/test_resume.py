"""A restarted run goes on from its last checkpoint, and what it does again is not in its curves."""

import random
import time

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


_SAME = (
    *(names.TRAIN_LOSS, names.LEARNING_RATE, "bytes_sent", names.EPOCH, names.VAL_LOSS),
    *(names.TRAIN_ACCURACY, names.VAL_ACCURACY, names.BYTES_PER_STEP),
)


def curves_of(client: ApiClient, run: Run, line: str = "kept") -> dict[str, list[float]]:
    """Return what a run has recorded on its line, but what depends on time."""
    series = client.get_run_metrics(run.id, metric_filter=_SAME, line=line).result().value  # type: ignore[arg-type]
    return {name: [point.number for point in points] for name, points in series.items()}


def await_steps(client: ApiClient, run: Run, steps: int) -> None:
    """Wait until a run's line has so many steps."""

    def are_done() -> bool:
        return len(curves_of(client, run).get(f"{names.TRAIN_LOSS} @ 0", ())) >= steps

    wait_for(are_done, seconds=200, what=f"step {steps}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("workers", "kills", "epochs", "within"),
    # DDP arranges its buckets anew, so three workers add up in another order; that grows.
    [(2, 2, 4, 0.0), (3, 1, 1, 1e-6)],
)
def test_a_killed_training_has_the_curves_of_one_that_was_not(
    client: ApiClient, stack: Home, workers: int, kills: int, epochs: int, within: float
) -> None:
    # Steps that differ in length: the kills come anywhere, also within a save.
    args = {"epochs": str(epochs), "goal": "100", "checkpoint_steps": "4"}
    runs = []
    for name, killed in (("whole", 0), ("killed", kills)):
        order = client.create_run(
            f"{name}-{workers}", workers, 1, benchmark="digits", max_restarts=killed, args=args
        )
        runs.append(run := order.result().value)
        dice = random.Random(workers)  # noqa: S311 - which moment does not matter
        for number in range(killed):
            await_steps(client, run, 5 + 13 * number)
            time.sleep(dice.random() / 2)
            training(stack, rank=dice.randrange(workers))[0].kill()
        ended = run_to_end(client, run, seconds=300)
        assert (ended.state, ended.attempt) == ("FINISHED", 1 + killed), ended.reason
        assert_counted(ended)
    whole, resumed = (curves_of(client, run) for run in runs)
    assert whole.keys() == resumed.keys()
    for name, values in whole.items():
        assert resumed[name] == pytest.approx(values, rel=within, abs=0), name
    results = [client.get_result(run.id).result().value for run in runs]
    resumptions = results[1].resumptions
    assert [one.stated for one in resumptions] == [True] * kills
    abandoned = curves_of(client, runs[1], "abandoned")
    again = [len(abandoned.get(f"{names.TRAIN_LOSS} @ {rank}", ())) for rank in range(workers)]
    assert max(again) <= sum(one.abandoned_steps for one in resumptions) <= sum(again)
    assert results[0].checkpoints is None, "a run that is not restarted saves none"
    # Every 4 steps, and after the 11 of an epoch; one that is killed may save and not say so.
    most = (11 * epochs - 1) // 4 + epochs
    assert results[1].checkpoints is not None
    assert most - kills <= results[1].checkpoints.count <= most
    figures = [
        (one.last_value, one.best_value, one.epochs, one.samples, one.bytes_sent_per_step)
        for one in results
    ]
    assert figures[0] == pytest.approx(figures[1], rel=within, abs=0)
