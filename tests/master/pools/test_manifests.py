"""A run's shape, laid over the manifest of the workers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from master.pools.base import Shape
from master.pools.manifests import (
    APPLIED,
    Manifest,
    ManifestError,
    PodDefaults,
    add_owner,
    applied,
    load,
    make_stateful_set,
    shape_of,
)
from tests.master.pools.made import DEFAULTS, IMAGE, LABELS, NAME, OWNER, make_manifest


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = made["spec"]["template"]["spec"]
    return pod


def worker_of(made: dict[str, Any]) -> dict[str, Any]:
    [worker] = pod_of(made)["containers"]
    found: dict[str, Any] = worker
    return found


def test_the_usual_shape_is_the_manifests_own(manifest: Manifest) -> None:
    made = make_stateful_set(manifest, DEFAULTS, Shape(), 3)
    assert made["spec"]["replicas"] == 3
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels == {**LABELS, "mlbench.shape": shape_of(made)}
    assert pod_of(made) == pod_of(manifest.stateful_set)
    assert "mlbench.shape" not in manifest.stateful_set["spec"]["template"]["metadata"]["labels"]
    assert (manifest.name, manifest.labels) == (NAME, LABELS)


@pytest.mark.parametrize(
    ("cores", "quantity", "threads"),
    [(2.0, "2000m", "2"), (0.5, "500m", "1"), (1.25, "1250m", "2"), (0.01, "10m", "1")],
)
def test_cores(manifest: Manifest, cores: float, quantity: str, threads: str) -> None:
    worker = worker_of(make_stateful_set(manifest, DEFAULTS, Shape(num_cpus=cores), 1))
    assert worker["resources"] == {
        "requests": {"cpu": quantity, "memory": "10Mi"},
        "limits": {"cpu": quantity, "memory": "50Mi"},
    }
    assert worker["env"] == [{"name": "OMP_NUM_THREADS", "value": threads}]


def test_cores_are_those_of_what_begins_the_pod_too(manifest: Manifest) -> None:
    """Or a pod of less than the usual cores would need them all the same, to begin."""
    usual = {"requests": {"cpu": "64"}, "limits": {"cpu": "64", "memory": "50Mi"}}
    pod_of(manifest.stateful_set)["initContainers"] = [{"name": "token", "resources": usual}]
    manifest.bring_agent["resources"] = usual
    shape = Shape(num_cpus=0.5, image="me/train:1")
    first = pod_of(make_stateful_set(manifest, DEFAULTS, shape, 1))["initContainers"]
    assert [container["name"] for container in first] == ["agent", "token"]
    for container in first:
        assert container["resources"] == {
            "requests": {"cpu": "500m"},
            "limits": {"cpu": "500m", "memory": "50Mi"},
        }
        assert "OMP_NUM_THREADS" not in str(container)


def test_gpus(manifest: Manifest) -> None:
    worker = worker_of(make_stateful_set(manifest, DEFAULTS, Shape(gpu_enabled=True), 1))
    assert worker["resources"]["limits"] == {"cpu": "1", "memory": "50Mi", "nvidia.com/gpu": "2"}


@pytest.mark.parametrize(
    ("default", "asked", "limit"), [(0.0, 20.0, "20"), (100.0, None, "100"), (1e6, 2.5, "2.5")]
)
def test_bandwidth(manifest: Manifest, default: float, asked: float | None, limit: str) -> None:
    made = make_stateful_set(manifest, PodDefaults(1.0, default, 0), Shape(max_bandwidth=asked), 1)
    [limiter] = pod_of(made)["initContainers"]
    assert limiter["name"] == "bandwidth"
    assert limiter["env"] == [{"name": "MLBENCH_BANDWIDTH_MBIT", "value": limit}]


def test_large_bandwidths_are_written_out(manifest: Manifest) -> None:
    made = make_stateful_set(manifest, DEFAULTS, Shape(max_bandwidth=1e6), 1)
    [limiter] = pod_of(made)["initContainers"]
    assert limiter["env"][0]["value"] == "1000000"


def test_any_image(manifest: Manifest) -> None:
    pod_of(manifest.stateful_set)["initContainers"] = [{"name": "the administrator's"}]
    made = make_stateful_set(manifest, DEFAULTS, Shape(image="me/train:1", max_bandwidth=1.0), 1)
    worker = worker_of(made)
    assert worker["image"] == "me/train:1"
    assert worker["command"] == ["python3", "-I", "/run/mlbench/agent.pyz"]
    assert worker["args"] == ["--pod", "$(MLBENCH_POD)"]
    names = [container["name"] for container in pod_of(made)["initContainers"]]
    assert names == ["bandwidth", "agent", "the administrator's"]
    assert worker_of(manifest.stateful_set)["image"] == IMAGE, "the manifest itself is as it was"


SHAPES = [
    Shape(),
    Shape(num_cpus=0.5),
    Shape(num_cpus=1.0),
    Shape(max_bandwidth=20.0),
    Shape(max_bandwidth=30.0),
    Shape(gpu_enabled=True),
    Shape(image="me/train:1"),
    Shape(image="me/train:2"),
]


def test_each_shape_has_a_label_of_its_own(manifest: Manifest) -> None:
    labels = [shape_of(make_stateful_set(manifest, DEFAULTS, shape, 2)) for shape in SHAPES]
    assert len(set(labels)) == len(SHAPES)
    assert labels == [shape_of(make_stateful_set(manifest, DEFAULTS, shape, 5)) for shape in SHAPES]


def test_a_changed_manifest_is_another_shape(manifest: Manifest, tmp_path: Path) -> None:
    changed = make_manifest()
    changed["statefulSet"]["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(changed))
    assert shape_of(make_stateful_set(load(path), DEFAULTS, Shape(), 2)) != shape_of(
        make_stateful_set(manifest, DEFAULTS, Shape(), 2)
    )


def test_asking_for_what_is_usual_is_no_other_shape(manifest: Manifest) -> None:
    usual = PodDefaults(cpus=0.5, bandwidth=100.0, gpus=0)
    shapes = (Shape(), Shape(max_bandwidth=100.0), Shape(num_cpus=0.5))
    assert len({shape_of(make_stateful_set(manifest, usual, one, 1)) for one in shapes}) == 1


def test_what_is_owned_goes_with_its_owner(manifest: Manifest) -> None:
    owned = add_owner(manifest.service, OWNER)
    assert owned["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "r-mlbench-master",
            "uid": "5ec9f286",
        }
    ]
    assert applied(owned) == owned["metadata"]["annotations"][APPLIED] != ""
    assert applied(manifest.service) == ""
    sizes = {
        applied(add_owner(make_stateful_set(manifest, DEFAULTS, Shape(), n), OWNER)) for n in (1, 2)
    }
    assert len(sizes) == 2


def test_protocols_are_written_out(manifest: Manifest) -> None:
    """Or servers before 1.23 cannot tell which port is which when one is applied."""
    [port] = manifest.service["spec"]["ports"]
    [own_port] = worker_of(manifest.stateful_set)["ports"]
    assert (port["protocol"], own_port["protocol"]) == ("TCP", "TCP")


def test_the_last_words_of_containers_are_in_the_status(manifest: Manifest) -> None:
    made = make_stateful_set(manifest, DEFAULTS, Shape(max_bandwidth=1.0, image="a"), 1)
    containers = [*pod_of(made)["initContainers"], worker_of(made)]
    assert [one["terminationMessagePolicy"] for one in containers] == ["FallbackToLogsOnError"] * 3


def test_the_last_words_of_what_always_begins_a_pod_are_too(tmp_path: Path) -> None:
    stated = make_manifest()
    stated["statefulSet"]["spec"]["template"]["spec"]["initContainers"] = [{"name": "token"}]
    path = tmp_path / "worker.json"
    path.write_text(json.dumps(stated))
    [token] = pod_of(make_stateful_set(load(path), DEFAULTS, Shape(), 1))["initContainers"]
    assert token["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda stated: stated.pop("service"), "service"),
        (lambda stated: stated.pop("statefulSet"), "statefulSet"),
        (lambda stated: stated["initContainers"].pop("agent"), "agent"),
        (lambda stated: stated["initContainers"].pop("bandwidth"), "bandwidth"),
        (
            lambda stated: pod_of(stated["statefulSet"])["containers"][0].update(name="other"),
            "a container named worker",
        ),
        (lambda stated: stated["statefulSet"]["spec"].pop("selector"), "selector"),
    ],
)
def test_what_a_manifest_lacks_is_told(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], object], what: str
) -> None:
    stated = make_manifest()
    spoil(stated)
    path = tmp_path / "worker.json"
    path.write_text(json.dumps(stated))
    with pytest.raises(ManifestError, match=f"lacks '{what}'"):
        load(path)


def test_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot be read"):
        load(tmp_path / "none.json")
    (tmp_path / "worker.json").write_text("{")
    with pytest.raises(ManifestError, match="cannot be read"):
        load(tmp_path / "worker.json")
