"""More workers and fewer: what does not fit is told, and the pool goes back when it is idle."""

from tests.e2e.commands import wait_until
from tests.e2e.release import IDLE_SECONDS, START_SECONDS, WORKERS, Release

_FAST = {"steps": 100, "rate": 100}


def test_more_workers_than_fit_are_told_of_and_fewer_run(release: Release) -> None:
    run = release.order("too-many", "steps", release.most_workers, **_FAST)
    waiting = wait_until(
        lambda: release.run(run.id),
        lambda run: run.waiting and "room for" in run.waiting,
        START_SECONDS,
        "the run says what it waits for",
    )
    assert f"of {release.most_workers} workers" in str(waiting.waiting)
    assert "Insufficient cpu" in str(waiting.waiting)

    ended = release.wait_for_end(run, START_SECONDS + 120)
    assert ended.state == "FAILED"
    assert "Insufficient cpu" in ended.reason
    wait_until(
        lambda: release.run(run.id).waiting,
        lambda waiting: not waiting,
        START_SECONDS,
        "its samples are counted, and it waits for nothing",
    )

    release.finish(release.order("fewer", "steps", **_FAST))


def test_an_idle_pool_goes_back_to_its_usual_size(release: Release) -> None:
    ended = release.finish(release.order("one-more", "steps", WORKERS + 1, **_FAST))
    assert len(ended.ranks) == WORKERS + 1
    release.wait_for_workers(WORKERS, IDLE_SECONDS + 120)
