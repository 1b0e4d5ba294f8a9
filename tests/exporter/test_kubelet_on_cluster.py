"""The exporter against the kubelet of a real cluster.

It reads as a service account of its own, with the one permission that the exporter needs, the use
of pods that are called like workers and of some that are not. The exporter runs on this machine,
which must reach the nodes. The pods' image is $MLBENCH_TEST_IMAGE, or Debian's.
"""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import wait_for

from .exporting import exporter, promtool_says, values

IMAGE = os.environ.get("MLBENCH_TEST_IMAGE", "docker.io/library/debian:bookworm-slim")
NAME = f"mlbench-exporter-test-{os.getpid()}"
OTHER = f"{NAME}-other"
UP = "mlbench_exporter_source_up"
SECONDS = 90.0
"""Enough for a kubelet to start pods, and to measure them twice."""

BUSY = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 1; done"
IDLE = "sleep infinity"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Cluster:
    """The node that has the pods, and folders like those that Kubernetes gives to its pods."""

    node: str
    address: str
    permitted: Path
    """Of an account that may read the kubelet's metrics."""
    stranger: Path
    """Of an account that may nothing."""


def kubectl(*arguments: str, **options: Any) -> str:
    """Return what kubectl prints."""
    printed: str = subprocess.run(
        ["kubectl", *arguments], check=True, text=True, stdout=subprocess.PIPE, **options
    ).stdout
    return printed


def manifest(kind: str, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io/v1" if kind.startswith("ClusterRole") else "v1"
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": group, "kind": kind, "metadata": metadata, **fields}


def pod(name: str, namespace: str, **containers: str) -> dict[str, Any]:
    """Return a pod that runs a shell command in each container; those of "worker" are limited."""
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {"name": container, "image": IMAGE, "command": ["sh", "-c", command]}
            | (limits if container == "worker" else {})
            for container, command in containers.items()
        ],
    }
    return manifest("Pod", name, namespace, spec=spec)


def manifests() -> list[dict[str, Any]]:
    rule = {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    permitted = {"kind": "ServiceAccount", "name": "permitted", "namespace": NAME}
    return [
        manifest("Namespace", NAME),
        manifest("Namespace", OTHER),
        manifest("ServiceAccount", "permitted", NAME),
        manifest("ServiceAccount", "stranger", NAME),
        manifest("ClusterRole", NAME, rules=[rule]),
        manifest("ClusterRoleBinding", NAME, roleRef=role, subjects=[permitted]),
        pod("r1-mlbench-worker-0", NAME, worker=BUSY, sidecar=IDLE),
        pod("r1-mlbench-worker-1", NAME, worker=IDLE),
        pod("r1-mlbench-master-0", NAME, master=IDLE),
        pod("r2-mlbench-worker-0", NAME, worker=IDLE),
        pod("r1-mlbench-worker-0", OTHER, worker=IDLE),
    ]


def make_account(folder: Path, account: str) -> Path:
    """Make the folder that a pod of a service account finds, and return it."""
    folder.mkdir()
    try:
        token = kubectl("-n", NAME, "create", "token", account, stderr=subprocess.DEVNULL)
    except subprocess.CalledProcessError:  # Kubernetes before 1.24 has one ready in a secret
        wait_for(lambda: "secrets" in get("serviceaccount", account), SECONDS)
        secret = get("secret", get("serviceaccount", account)["secrets"][0]["name"])
        token = base64.b64decode(secret["data"]["token"]).decode()
    (folder / "token").write_text(token)
    (folder / "namespace").write_text(NAME)
    return folder


def get(kind: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(kubectl("-n", NAME, "get", kind, name, "-o", "json"))
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    try:
        everything = {"apiVersion": "v1", "kind": "List", "items": manifests()}
        kubectl("apply", "-f", "-", input=json.dumps(everything))
        for namespace in (NAME, OTHER):
            wait = ("wait", "pod", "--all", "--for=condition=Ready", f"--timeout={SECONDS:g}s")
            kubectl("-n", namespace, *wait)
        status = get("pod", "r1-mlbench-worker-0")
        yield Cluster(
            status["spec"]["nodeName"],
            status["status"]["hostIP"],
            make_account(folder / "permitted", "permitted"),
            make_account(folder / "stranger", "stranger"),
        )
    finally:
        kubectl("delete", "--wait=false", "namespace", NAME, OTHER)
        kubectl("delete", "clusterrole,clusterrolebinding", NAME)


def options(cluster: Cluster, account: Path) -> tuple[str, ...]:
    # Not every kubelet's certificate is signed by an authority that is known here.
    return (
        *("--kubelet", cluster.address, "--kubelet-insecure", "--node", cluster.node),
        *("--release", "r1", "--service-account", str(account)),
    )


def test_the_workers_of_the_release_are_shown_and_no_others(
    cluster: Cluster, tmp_path: Path, promtool: Path
) -> None:
    expected = {
        (NAME, "r1-mlbench-worker-0", "worker", cluster.node),
        (NAME, "r1-mlbench-worker-0", "sidecar", cluster.node),
        (NAME, "r1-mlbench-worker-1", "worker", cluster.node),
    }
    labels = ("namespace", "pod", "container", "node")
    with exporter(tmp_path, options(cluster, cluster.permitted)) as served:
        wait_for(
            lambda: expected <= values(served.scrape(), "container_threads", *labels).keys(),
            SECONDS,
            "the kubelet has measured all pods",
        )
        text = served.scrape()

    assert values(text, UP, "source")["kubelet",] == 1
    for name in (
        "container_cpu_usage_seconds_total",
        "container_cpu_user_seconds_total",
        "container_memory_usage_bytes",
        "container_memory_working_set_bytes",
        "container_threads",
        "container_processes",
    ):
        assert values(text, name, *labels).keys() == expected, name
    workers = {labels for labels in expected if labels[2] == "worker"}
    received = values(text, "container_network_receive_bytes_total", *labels)
    assert received.keys() == workers
    limits = values(text, "container_spec_memory_limit_bytes", *labels)
    assert limits == dict.fromkeys(workers, 64 << 20)
    assert values(text, "machine_cpu_cores", "node")[cluster.node,] >= 1
    assert values(text, "machine_memory_bytes", "node")[cluster.node,] >= 1 << 30
    assert promtool_says(promtool, text) == ""


def test_figures_move_with_the_time_at_which_they_were_measured(
    cluster: Cluster, tmp_path: Path
) -> None:
    def worker(text: str) -> tuple[float, float]:
        (sample,) = (
            sample
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "container_cpu_usage_seconds_total"
            and (sample.labels["pod"], sample.labels["container"])
            == ("r1-mlbench-worker-0", "worker")
        )
        assert sample.timestamp
        return float(sample.timestamp), sample.value

    with exporter(tmp_path, options(cluster, cluster.permitted)) as served:
        wait_for(lambda: '"r1-mlbench-worker-0"' in served.scrape(), SECONDS)
        readings = {worker(served.scrape())}

        def was_measured_again() -> bool:
            readings.add(worker(served.scrape()))
            return len(readings) > 1

        wait_for(was_measured_again, SECONDS, "a second measurement")

    (first_time, first), (next_time, following) = sorted(readings)
    assert following > first, "one time, one value; and a busy worker's grows"
    assert time.time() - SECONDS - 60 < first_time < next_time <= time.time()


def test_a_pod_that_is_gone_is_not_shown(cluster: Cluster, tmp_path: Path) -> None:
    with exporter(tmp_path, options(cluster, cluster.permitted)) as served:
        wait_for(lambda: '"r1-mlbench-worker-1"' in served.scrape(), SECONDS)
        kubectl("-n", NAME, "delete", "pod", "r1-mlbench-worker-1")
        wait_for(lambda: '"r1-mlbench-worker-1"' not in served.scrape(), SECONDS)

        assert '"r1-mlbench-worker-0"' in served.scrape()


@pytest.mark.parametrize(
    ("token", "message"), [(None, "403 Forbidden"), ("made-up", "401 Unauthorized")]
)
def test_who_may_not_read_is_told_so(
    token: str | None, message: str, cluster: Cluster, tmp_path: Path
) -> None:
    account = shutil.copytree(cluster.stranger, tmp_path / "account")
    if token:
        (account / "token").write_text(token)
    with exporter(tmp_path, options(cluster, account)) as served:
        text = served.scrape()
        log = served.stop()

    assert values(text, UP, "source")["kubelet",] == 0
    assert "container_" not in text
    assert message in log
    assert "Traceback" not in log
