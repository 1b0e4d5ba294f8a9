"""Two runs at a time: on pods of their own, untouched by each other's trouble, and in turn."""

from collections.abc import Iterator

import pytest

from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench_worker.tasks.steps import train_loss
from tests.e2e.commands import wait_until
from tests.e2e.release import CORES, WORKERS, Release
from tests.support.stacks import losses

_STEPS = 1000
_RATE = 50
_SMALL = CORES / 2
"""Cores of each worker where four must fit on a small node."""


@pytest.fixture(scope="module")
def two_at_a_time(release: Release) -> Iterator[Release]:
    """The release, while two runs may go on at a time."""
    release.helm("upgrade", "--set", "master.concurrentRuns=2")
    yield release
    release.helm("upgrade")


def test_two_go_on_while_one_restarts_and_one_of_another_shape_waits(
    two_at_a_time: Release,
) -> None:
    release = two_at_a_time
    calm, troubled = (_order(release, name, _SMALL, 1) for name in ("calm", "troubled"))
    other = _order(release, "other", CORES, 0)
    for run in (calm, troubled):
        release.wait_until_recorded(run, f"{names.STEP} @ 1", 1)
    begun = [release.run(run.id) for run in (calm, troubled)]
    assert [run.state for run in begun] == ["STARTED"] * 2
    pods = [[rank.pod for rank in run.ranks] for run in begun]
    assert len({*pods[0], *pods[1]}) == 2 * WORKERS, "each has pods of its own"

    release.kubectl("delete", "pod", str(pods[1][1]), "--wait=false")
    ended = _check(release, calm)
    assert (ended.attempt, [rank.pod for rank in ended.ranks]) == (1, pods[0])
    waits = f"waiting for run {troubled.id}: its workers have another shape"
    wait_until(lambda: release.run(other.id).waiting, waits.__eq__, 10, "it says what it waits for")
    ended = _check(release, troubled)
    assert ended.attempt == 2
    assert str(_check(release, other).started_at) > str(ended.finished_at)


def _order(release: Release, name: str, cores: float, max_restarts: int) -> Run:
    """Order a run of known values that takes 20 s."""
    ordered = release.client.create_run(
        *(name, WORKERS, cores, None),
        benchmark="steps",
        args={"steps": str(_STEPS), "rate": str(_RATE)},
        max_restarts=max_restarts,
        queue=True,
    )
    return ordered.result().value


def _check(release: Release, run: Run) -> Run:
    """Make sure that a run finishes with all its values, and return it."""
    ended = release.finish(run)
    values = {train_loss(step) for step in range(1, _STEPS + 1)}
    for rank in range(WORKERS):
        assert set(losses(release.client, run, rank)) == values
    return ended
