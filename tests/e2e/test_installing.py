"""The chart as it is installed: every part is ready, and its own test passes."""

from tests.e2e.commands import run, wait_until
from tests.e2e.release import WORKERS, Object, Release


def test_every_part_is_there_and_ready(release: Release) -> None:
    # Of a DaemonSet, Helm waits for all nodes but one.
    wait_until(
        lambda: [_is_ready(pod) for pod in release.objects("pods", "exporter")],
        lambda ready: ready and all(ready),
        120,
        "the exporter is ready on every node",
    )
    ready = {
        component: [_is_ready(pod) for pod in release.objects("pods", component)]
        for component in ("master", "exporter", "prometheus")
    }
    assert ready["master"] == [True]
    assert ready["prometheus"] == [True]
    assert set(ready["exporter"]) == {True}
    release.wait_for_workers(WORKERS)


def test_the_charts_own_test_passes(release: Release) -> None:
    tested = run(
        *(release.place.helm, "test", release.name, "--namespace", release.name),
        *("--timeout", "5m"),
        seconds=330,
    )
    assert "Phase:          Succeeded" in tested


def _is_ready(pod: Object) -> bool:
    return all(container["ready"] for container in pod["status"]["containerStatuses"])
