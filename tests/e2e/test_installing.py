"""The installed chart: all components are ready, and `helm test` passes."""

from tests.e2e.commands import run, wait_until
from tests.e2e.release import WORKERS, Release, is_ready


def test_all_components_are_ready(release: Release) -> None:
    # For a DaemonSet, Helm waits until all nodes but one are ready.
    wait_until(
        lambda: list(map(is_ready, release.objects("pods", "exporter"))),
        lambda ready: ready and all(ready),
        120,
        "the exporter is ready on every node",
    )
    for component in ("master", "prometheus"):
        assert list(map(is_ready, release.objects("pods", component))) == [True]
    release.wait_for_workers(WORKERS)


def test_helm_test_passes(release: Release) -> None:
    tested = run(
        *(release.place.helm, "test", release.name, "--namespace", release.name),
        *("--timeout", "5m"),
        seconds=330,
    )
    assert "Phase:          Succeeded" in tested
