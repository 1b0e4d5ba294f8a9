"""Wrong values are refused with a text that names them; the original's keep their meaning."""

import re
import tomllib

import pytest
import yaml

from helm.check.rendering import (
    CHART,
    ROOT,
    ChartError,
    Helm,
    find_documents,
    worker_manifest,
)
from tests.helm.conftest import Render


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("limits.wrokers=3", "limits: Additional property wrokers is not allowed"),
        ("limitz.workers=3", "Additional property limitz is not allowed"),
        ("limits.workers=0", "limits.workers: Must be greater than or equal to 1"),
        ("limits.cpu=0", "limits.cpu: Must be greater than 0"),
        ("limits.cpu=0m", "limits.cpu: Does not match pattern"),
        ("limits.cpu=two", "limits.cpu: Does not match pattern"),
        ("limits.bandwidth=-1", "limits.bandwidth: Must be greater than 0"),
        ("limits.gpu=1.5", "limits.gpu: Invalid type. Expected: integer"),
        ("master.service.type=Public", "master.service.type must be one of"),
        ("master.image.pullPolicy=Sometimes", "master.image.pullPolicy must be one of"),
        ("grafana.url=http://me:secret@grafana", "grafana.url: Does not match pattern"),
        ("weave.enabled=true", "weave.enabled: Weave Net ended in 2024"),
        ("prometheus.enabled=false", "prometheus.url: set it"),
        ("prometheus.url=http://here:9090", "prometheus.url: set prometheus.enabled to false"),
        ("grafana.url=http://here:3000", "grafana.url: set grafana.enabled to false"),
        ("gcePersistentDisk.enabled=true", "gcePersistentDisk.pdName: name the disk"),
        ("master.ingress.enabled=true", "master.ingress.host: set the name"),
        ("worker.replicas=9", "worker.replicas: 9 idle workers are more than limits.workers"),
        ("worker.resources.limits.cpu=2", "a worker's cores are set by limits.cpu"),
    ],
)
def test_a_wrong_value_is_named(render: Render, wrong: str, told: str) -> None:
    with pytest.raises(ChartError, match=re.escape(told)):
        render(wrong)


def test_weave_says_that_bandwidth_needs_no_plugin(render: Render) -> None:
    with pytest.raises(ChartError, match="Bandwidth limits need no network plugin"):
        render("weave.enabled=true")


@pytest.mark.parametrize(
    ("cpu", "threads"),
    [("8", "8"), ("8000m", "8"), ("500m", "1"), ("1.5", "2"), ("1500m", "2"), ("0.25", "1")],
)
def test_cores_are_in_kubernetes_notation(render: Render, cpu: str, threads: str) -> None:
    documents = render(f"limits.cpu={cpu}")
    spec = worker_manifest(documents)["statefulSet"]["spec"]["template"]["spec"]
    (worker,) = spec["containers"]
    resources = worker["resources"]
    assert resources["limits"]["cpu"] == resources["requests"]["cpu"] == cpu
    environment = {entry["name"]: entry.get("value") for entry in worker["env"]}
    assert environment["OMP_NUM_THREADS"] == threads
    (master,) = find_documents(documents, "Deployment", "r-mlbench-master")
    for container in master["spec"]["template"]["spec"]["containers"]:
        told = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert told["MLBENCH_LIMIT_CPUS"] == cpu


def test_a_persistent_disk_is_mounted_read_only(render: Render) -> None:
    documents = render("gcePersistentDisk.enabled=true", "gcePersistentDisk.pdName=my-disk")
    spec = worker_manifest(documents)["statefulSet"]["spec"]["template"]["spec"]
    (volume,) = (v for v in spec["volumes"] if v["name"] == "datasets")
    assert volume["gcePersistentDisk"]["pdName"] == "my-disk"
    (mount,) = (m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "datasets")
    assert mount == {"name": "datasets", "mountPath": "/datasets", "readOnly": True}


def test_pull_secrets_are_each_parts_own_or_the_common_one(render: Render) -> None:
    documents = render("imagePullSecret=common", "worker.imagePullSecret=of-worker")
    (master,) = find_documents(documents, "Deployment", "r-mlbench-master")
    worker = worker_manifest(documents)["statefulSet"]
    assert master["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "common"}]
    assert worker["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "of-worker"}]


def test_a_release_name_that_is_too_long_is_refused(helm: Helm) -> None:
    with pytest.raises(ChartError, match="33 characters at most"):
        helm.render("1.31.0", release="r" * 34)
    assert helm.render("1.31.0", release="r" * 33)


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    with pytest.raises(ChartError, match="incompatible with Kubernetes"):
        helm.render("1.19.16")


def test_the_charts_version_of_the_application_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == project["version"]
    assert chart["kubeVersion"] == ">=1.20.0-0"
