"""Series of a run in the bundled Prometheus: all components and labels."""

import pytest

from mlbench.contract import names
from mlbench.contract.records import Run
from tests.e2e.commands import wait_until
from tests.e2e.release import Release

_SECONDS = 90.0
"""Enough for the exporter to read a kubelet's metrics, and for Prometheus to scrape them."""


@pytest.fixture(scope="module")
def finished(release: Release) -> Run:
    """A finished run of two workers, long enough to be scraped."""
    return release.finish(release.order("series", "steps", steps=500, rate=50))


def test_every_target_is_up(release: Release) -> None:
    # API, controller, exporter and two workers, which may still be starting.
    wait_until(
        lambda: release.query("up"),
        lambda rows: len(rows) >= 5 and all(row["value"][1] == "1" for row in rows),
        _SECONDS,
        "all five targets are up",
    )


def test_series_of_agents_have_run_rank_and_pod(release: Release, finished: Run) -> None:
    steps, info = (
        release.query(f'last_over_time({name}{{run_id="{finished.id}"}}[10m])')
        for name in (names.WORKER_STEPS, names.WORKER_INFO)
    )
    assert {row["metric"]["rank"] for row in steps} == {"0", "1"}
    assert {row["metric"]["instance"] for row in steps} == set(release.kept_workers)
    assert {row["metric"]["pod"] for row in info} == set(release.kept_workers)


@pytest.mark.parametrize(
    "name",
    [
        "container_cpu_usage_seconds_total",
        "container_cpu_user_seconds_total",
        "container_memory_usage_bytes",
        "container_memory_working_set_bytes",
        "container_spec_memory_limit_bytes",
        "container_threads",
        "container_processes",
        "container_network_receive_bytes_total",
        "container_network_transmit_bytes_total",
    ],
)
def test_the_exporter_shows_only_containers_of_workers(
    release: Release, finished: Run, name: str
) -> None:
    query, workers = f'{name}{{namespace="{release.name}"}} > 0', set(release.kept_workers)
    rows = wait_until(
        lambda: [series["metric"] for series in release.query(query)],
        lambda rows: {row["pod"] for row in rows if row["container"] == "worker"} >= workers,
        _SECONDS,
        "the exporter shows all workers",
    )
    # Init containers are reported for a while after their end; sandboxes and whole pods never are.
    assert not {"", "POD"} & {labels["container"] for labels in rows}
    assert all(labels["pod"].startswith(f"{release.fullname}-worker-") for labels in rows)
    cores = {series["metric"]["node"] for series in release.query("machine_cpu_cores >= 1")}
    assert {labels["node"] for labels in rows} <= cores
