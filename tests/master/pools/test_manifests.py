"""The StatefulSet of a run's worker shape, made from the chart's manifest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.pools.manifests import (
    APPLIED,
    ManifestError,
    Object,
    PodManifest,
    add_owner,
    applied,
    load,
    make_stateful_set,
    shape_of,
)
from mlbench_master.settings import InstallationLimits
from tests.master.pools.made import IMAGE, LABELS, LIMITS, NAME, OWNER, write_manifest


def make(
    manifest: PodManifest, workers: int = 1, limits: InstallationLimits = LIMITS, **shape: Any
) -> Object:
    return make_stateful_set(manifest, limits, WorkerSpec(**shape), workers)


def pod_of(made: Object) -> Any:
    return made["spec"]["template"]["spec"]


def worker_of(made: Object) -> Any:
    [worker] = pod_of(made)["containers"]
    return worker


def test_the_default_shape_leaves_the_manifest_unchanged(manifest: PodManifest) -> None:
    made = make(manifest, 3)
    assert made["spec"]["replicas"] == 3
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels == {**LABELS, "mlbench.shape": shape_of(made)}
    assert pod_of(made) == pod_of(manifest.stateful_set)
    assert "mlbench.shape" not in manifest.stateful_set["spec"]["template"]["metadata"]["labels"]
    assert (manifest.name, manifest.labels) == (NAME, LABELS)


def test_cores(manifest: PodManifest) -> None:
    for cores, quantity, threads in ((2.0, "2000m", "2"), (1.25, "1250m", "2"), (0.01, "10m", "1")):
        worker = worker_of(make(manifest, num_cpus=cores))
        assert worker["resources"]["requests"] == {"cpu": quantity, "memory": "10Mi"}
        assert worker["resources"]["limits"] == {"cpu": quantity, "memory": "50Mi"}
        assert worker["env"] == [{"name": "OMP_NUM_THREADS", "value": threads}]


def test_init_containers_get_no_more_cores_than_the_worker(manifest: PodManifest) -> None:
    """A pod with a small shape must not need the default cores to start."""
    resources = {"requests": {"cpu": "64"}, "limits": {"cpu": "64", "memory": "50Mi"}}
    pod_of(manifest.stateful_set)["initContainers"] = [{"name": "token", "resources": resources}]
    manifest.bring_agent["resources"] = resources
    first = pod_of(make(manifest, num_cpus=0.5, image="me/train:1"))["initContainers"]
    assert [container["name"] for container in first] == ["agent", "token"]
    for container in first:
        assert container["resources"]["requests"] == {"cpu": "500m"}
        assert container["resources"]["limits"] == {"cpu": "500m", "memory": "50Mi"}
        assert "OMP_NUM_THREADS" not in str(container)


def test_gpus(manifest: PodManifest) -> None:
    worker = worker_of(make(manifest, gpu_enabled=True))
    assert worker["resources"]["limits"] == {"cpu": "1", "memory": "50Mi", "nvidia.com/gpu": "2"}


@pytest.mark.parametrize(
    ("default", "asked", "limit"),
    [(0.0, 20.0, "20"), (100.0, None, "100"), (1e6, 2.5, "2.5"), (0.0, 1e6, "1000000")],
)
def test_bandwidth(manifest: PodManifest, default: float, asked: float | None, limit: str) -> None:
    limits = InstallationLimits(cpus=1.0, bandwidth=default)
    made = make(manifest, limits=limits, max_bandwidth=asked)
    [limiter] = pod_of(made)["initContainers"]
    assert limiter["name"] == "network"
    assert limiter["env"] == [{"name": "MLBENCH_BANDWIDTH_MBIT", "value": limit}]


def test_latency_and_loss(manifest: PodManifest) -> None:
    [shaper] = pod_of(make(manifest, latency_ms=5.0, loss_percent=0.1))["initContainers"]
    variables = [("MLBENCH_LATENCY_MS", "5"), ("MLBENCH_LOSS_PERCENT", "0.1")]
    assert shaper["env"] == [{"name": name, "value": value} for name, value in variables]


def test_a_custom_image_runs_the_agent(manifest: PodManifest) -> None:
    pod_of(manifest.stateful_set)["initContainers"] = [{"name": "the administrator's"}]
    made = make(manifest, image="me/train:1", max_bandwidth=1.0)
    worker = worker_of(made)
    assert worker["image"] == "me/train:1"
    assert worker["command"] == ["python3", "-I", "/run/mlbench/agent.pyz"]
    assert worker["args"] == ["--pod", "$(MLBENCH_POD)"]
    names = [container["name"] for container in pod_of(made)["initContainers"]]
    assert names == ["network", "agent", "the administrator's"]
    assert worker_of(manifest.stateful_set)["image"] == IMAGE, "the manifest must not be changed"


def test_each_shape_has_a_different_label(manifest: PodManifest, tmp_path: Path) -> None:
    shapes: list[dict[str, Any]] = [
        *({}, {"num_cpus": 0.5}, {"num_cpus": 1.0}, {"gpu_enabled": True}),
        *({"max_bandwidth": 20.0}, {"max_bandwidth": 30.0}, {"latency_ms": 20.0}),
        *({"image": "me/train:1"}, {"image": "me/train:2"}),
    ]
    labels = [shape_of(make(manifest, 2, **shape)) for shape in shapes]
    assert len(set(labels)) == len(shapes)
    assert labels == [shape_of(make(manifest, 5, **shape)) for shape in shapes]

    def change(stated: Object) -> None:
        pod_of(stated["statefulSet"])["nodeSelector"] = {"a": "b"}

    changed = load(write_manifest(tmp_path / "changed.json", change=change))
    assert shape_of(make(changed)) != labels[0]

    # Explicit defaults make no difference.
    limits = InstallationLimits(cpus=0.5, bandwidth=100.0)
    shapes = [{}, {"max_bandwidth": 100.0}, {"num_cpus": 0.5}]
    assert len({shape_of(make(manifest, limits=limits, **shape)) for shape in shapes}) == 1


def test_an_object_has_an_owner_reference(manifest: PodManifest) -> None:
    owned = add_owner(manifest.service, OWNER)
    owner = {"kind": "Deployment", "name": "r-mlbench-master", "uid": "5ec9f286"}
    assert owned["metadata"]["ownerReferences"] == [{"apiVersion": "apps/v1", **owner}]
    assert applied(owned) == owned["metadata"]["annotations"][APPLIED] != ""
    assert applied(manifest.service) == ""
    one, two = (make(manifest, workers) for workers in (1, 2))
    assert applied(add_owner(one, OWNER)) != applied(add_owner(two, OWNER))


def test_defaults_of_kubernetes_are_written_out(tmp_path: Path) -> None:
    def add_init_container(stated: Object) -> None:
        pod_of(stated["statefulSet"])["initContainers"] = [{"name": "token"}]

    manifest = load(write_manifest(tmp_path / "worker.json", change=add_init_container))
    made = make(manifest, max_bandwidth=1.0, image="a")
    # Servers before 1.23 cannot distinguish applied ports without a protocol.
    for ports in (manifest.service["spec"]["ports"], worker_of(made)["ports"]):
        assert [port["protocol"] for port in ports] == ["TCP"]
    # With this policy, the status has the last output of a failed container.
    specs = [*pod_of(made)["initContainers"], worker_of(made)]
    assert [spec["terminationMessagePolicy"] for spec in specs] == ["FallbackToLogsOnError"] * 4


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda stated: stated["initContainers"].pop("network"), "network"),
        (lambda stated: worker_of(stated["statefulSet"]).update(name="x"), "a container named wor"),
        (lambda stated: stated["statefulSet"]["spec"].pop("selector"), "selector"),
    ],
)
def test_incomplete_manifests(tmp_path: Path, spoil: Callable[[Object], object], what: str) -> None:
    path = write_manifest(tmp_path / "worker.json", change=spoil)
    with pytest.raises(ManifestError, match=f"'{what}.*is missing in"):
        load(path)
    with pytest.raises(ManifestError, match="cannot read"):
        load(tmp_path / "none.json")
