"""Runs with too many workers fail with the reason, and an idle pool shrinks."""

from tests.e2e.commands import wait_until
from tests.e2e.release import IDLE_SECONDS, START_SECONDS, WORKERS, Release

_FAST = {"steps": 100, "rate": 100}


def test_a_run_with_too_many_workers_fails_with_the_reason(release: Release) -> None:
    run = release.order("too-many", "steps", release.most_workers, **_FAST)
    waiting = wait_until(
        lambda: release.run(run.id),
        lambda run: run.waiting and "room for" in run.waiting,
        START_SECONDS,
        "the reason for waiting",
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
        "the samples are counted, and the run no longer waits",
    )

    release.finish(release.order("fewer", "steps", **_FAST))


def test_an_idle_pool_shrinks_to_its_usual_size(release: Release) -> None:
    ended = release.finish(release.order("one-more", "steps", WORKERS + 1, **_FAST))
    assert len(ended.ranks) == WORKERS + 1
    release.wait_for_workers(WORKERS, IDLE_SECONDS + 120)
