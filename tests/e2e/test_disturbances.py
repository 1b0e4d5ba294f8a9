"""Deleted pods and upgrades during runs: the runs finish without missing samples."""

import os

from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench_worker.tasks.steps import train_loss
from tests.e2e.commands import wait_until
from tests.e2e.release import CORES, ENDLESS, WORKERS, Release
from tests.support.stacks import losses

_STEPS = 1000
_RATE = 50
_SMALL = CORES / 2
"""Cores per worker if four workers must fit on a small node."""
_UPDATES = int(os.environ.get("ROLLING_UPDATES", "1"))
"""Number of upgrades of the release during the run."""


def test_a_run_resumes_from_its_checkpoint_after_a_worker_is_deleted(release: Release) -> None:
    args = {"epochs": "8", **ENDLESS}
    ordered = release.client.create_run(
        "worker-deleted", 2, None, benchmark="digits", args=args, max_restarts=1, queue=True
    )
    run = ordered.result().value
    release.wait_until_recorded(run, f"{names.EPOCH} @ 1", 2)
    release.kubectl("delete", "pod", release.kept_workers[1], "--wait=false")
    ended = release.finish(run, seconds=300)

    assert ended.attempt == 2
    series = release.client.get_run_metrics(run.id, metric_filter=f"{names.EPOCH} @ 0")
    [points] = series.result().value.values()
    epochs = [point.number for point in points]
    assert epochs.count(0) == 1, "the run must resume from its checkpoint"
    assert sorted(set(epochs)) == list(range(8))


def test_a_run_survives_deletion_of_the_master(release: Release) -> None:
    run = _order_steps(release, "master-deleted")
    [before] = release.pods("master")
    release.kubectl("delete", "pod", before, "--wait=false")
    _check_steps(release, run)
    assert before not in release.pods("master")


def test_concurrent_runs_with_a_restart_and_a_queued_run(release: Release) -> None:
    # The upgrade in the next test resets this setting.
    release.helm("upgrade", "--set", "master.concurrentRuns=2")
    calm, troubled = (_order_shape(release, name, _SMALL, 1) for name in ("calm", "troubled"))
    other = _order_shape(release, "other", CORES, 0)
    for run in (calm, troubled):
        release.wait_until_recorded(run, f"{names.STEP} @ 1", 1)
    started = [release.run(run.id) for run in (calm, troubled)]
    assert [run.state for run in started] == ["STARTED"] * 2
    pods = [[rank.pod for rank in run.ranks] for run in started]
    assert len({*pods[0], *pods[1]}) == 2 * WORKERS, "runs must not share pods"

    release.kubectl("delete", "pod", str(pods[1][1]), "--wait=false")
    ended = _check_steps(release, calm)
    assert [rank.pod for rank in ended.ranks] == pods[0]
    waits = f"waiting for run {troubled.id}: its workers have another shape"
    wait_until(lambda: release.run(other.id).waiting, waits.__eq__, 10, "the reason for waiting")
    ended = _check_steps(release, troubled, attempt=2)
    assert str(_check_steps(release, other).started_at) > str(ended.finished_at)


def test_a_run_survives_an_upgrade_of_the_release(release: Release) -> None:
    earlier = {run.id: run.state for run in release.client.get_runs().result().value}
    secrets, [before] = release.secrets(), release.pods("master")
    run = _order_steps(release, "upgraded", _UPDATES * _STEPS)
    for number in range(1, _UPDATES):
        # Upgrades only API and controller, because Prometheus would lose its data with its pod
        # here.
        variable = f"master.extraEnv[0].name=UPDATE,master.extraEnv[0].value={number}"
        release.helm("upgrade", "--set-string", variable)
        release.wait_until_recorded(run, f"{names.STEP} @ 0", number * _STEPS)
    release.helm("upgrade", more={"extraLabels": {"upgraded": "yes"}})
    ended = _check_steps(release, run, _UPDATES * _STEPS)
    print(f"{_UPDATES} updates of {ended.started_at} to {ended.finished_at}: {ended.delivery}")

    assert before not in release.pods("master")
    assert release.secrets() == secrets
    later = {run.id: run.state for run in release.client.get_runs().result().value}
    assert earlier.items() <= later.items()
    # The workers' template has changed too, so they are replaced after the run.
    wait_until(
        lambda: [pod["metadata"]["labels"] for pod in release.pods("worker").values()],
        lambda pods: [labels.get("upgraded") for labels in pods] == ["yes"] * WORKERS,
        120,
        "the workers are replaced",
    )


def _order_steps(release: Release, name: str, steps: int = _STEPS) -> Run:
    """Start a run of known values, by default of 20 s, and return it after its first step."""
    run = release.order(name, "steps", steps=steps, rate=_RATE)
    release.wait_until_recorded(run, f"{names.STEP} @ 0", 1)
    return run


def _order_shape(release: Release, name: str, cores: float, max_restarts: int) -> Run:
    """Queue a run of known values that takes 20 s, on workers with this number of cores."""
    ordered = release.client.create_run(
        *(name, WORKERS, cores, None),
        benchmark="steps",
        args={"steps": str(_STEPS), "rate": str(_RATE)},
        max_restarts=max_restarts,
        queue=True,
    )
    return ordered.result().value


def _check_steps(release: Release, run: Run, steps: int = _STEPS, attempt: int = 1) -> Run:
    """Assert that a run finishes at this attempt with all values, and return it."""
    ended = release.finish(run)
    assert ended.attempt == attempt
    values = [train_loss(step) for step in range(1, steps + 1)]
    for rank in range(WORKERS):
        recorded = losses(release.client, run, rank)
        if attempt == 1:
            assert recorded == values
        else:  # A restarted run repeats its first steps.
            assert set(recorded) == set(values)
    return ended
