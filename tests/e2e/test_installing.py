"""The chart as it is installed: every part is ready, and its own test passes."""

from tests.e2e.commands import run, wait_until
from tests.e2e.release import WORKERS, Release, is_ready


def test_every_part_is_there_and_ready(release: Release) -> None:
    # Of a DaemonSet, Helm waits for all nodes but one.
    wait_until(
        lambda: list(map(is_ready, release.objects("pods", "exporter"))),
        lambda ready: ready and all(ready),
        120,
        "the exporter is ready on every node",
    )
    for component in ("master", "prometheus"):
        assert list(map(is_ready, release.objects("pods", component))) == [True]
    release.wait_for_workers(WORKERS)


def test_the_charts_own_test_passes(release: Release) -> None:
    tested = run(
        *(release.place.helm, "test", release.name, "--namespace", release.name),
        *("--timeout", "5m"),
        seconds=330,
    )
    assert "Phase:          Succeeded" in tested
