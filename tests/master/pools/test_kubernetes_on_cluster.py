"""The Kubernetes pool in a real cluster: shapes, sizes, failures and their explanations."""

import json
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.pools.kubernetes import KubernetesPool
from mlbench_master.pools.manifests import Object
from tests.master.pools.made import IMAGE, LABELS, NAME, OWNER_NAME, make_pool, write_manifest

pytestmark = pytest.mark.cluster

# Several of these fit on one small node.
SMALL = WorkerSpec(num_cpus=0.02)


@dataclass(frozen=True)
class Namespace:
    """A namespace of the cluster, used through kubectl."""

    name: str

    def kubectl(self, *words: str, given: str | None = None) -> str:
        command = ["kubectl", "-n", self.name, *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def items(self, kind: str) -> list[Object]:
        """Return the pool's objects of a kind."""
        labels = ",".join(f"{name}={value}" for name, value in LABELS.items())
        found: Object = json.loads(self.kubectl("get", kind, "-l", labels, "-o", "json"))
        return list(found["items"])

    def apply(self, *objects: Object) -> None:
        for item in objects:
            self.kubectl("apply", "-f", "-", given=json.dumps(item))


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A namespace with the Deployment that owns the pool."""
    namespace = Namespace(f"pool-{uuid.uuid4().hex[:8]}")
    namespace.kubectl("create", "namespace", namespace.name)
    try:
        words = ["create", "deployment", OWNER_NAME, f"--image={IMAGE}", "--replicas=0"]
        namespace.kubectl(*words)
        yield namespace
    finally:
        namespace.kubectl("delete", "namespace", namespace.name, "--wait=false")


@pytest.fixture
def pool(namespace: Namespace, tmp_path: Path, stop: threading.Event) -> KubernetesPool:
    manifest = write_manifest(tmp_path / "worker.json", namespace.name)
    return make_pool(manifest, namespace.name, stop)


def until(held: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
    """Wait until the condition holds; fail after two minutes with the message."""
    deadline = time.monotonic() + 120
    while not held():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def settle(pool: KubernetesPool, workers: int, shape: WorkerSpec) -> list[str]:
    """Scale the pool, wait until its workers are usable, and return their uids."""

    def is_there() -> bool:
        pool.scale(workers, shape, frozenset())
        return [pod.usable for pod in pool.pods() or []] == [True] * workers

    until(is_there, pool.explain)
    return [pod.uid for pod in pool.pods() or []]


def check_exactly(namespace: Namespace, workers: int, cores: float) -> None:
    """Assert that the namespace has the expected objects and no others."""
    [service], [stateful_set] = namespace.items("services"), namespace.items("statefulsets")
    for item in (service, stateful_set):
        assert [owner["name"] for owner in item["metadata"]["ownerReferences"]] == [OWNER_NAME]
    pods = namespace.items("pods")
    assert [pod["metadata"]["name"] for pod in pods] == [f"{NAME}-{i}" for i in range(workers)]
    for pod in pods:
        assert "deletionTimestamp" not in pod["metadata"]
        assert pod["status"]["phase"] == "Running"
        limit = pod["spec"]["containers"][0]["resources"]["limits"]["cpu"]
        assert limit == f"{round(cores * 1000)}m"


def test_size_and_shape_of_the_pool_and_its_end(pool: KubernetesPool, namespace: Namespace) -> None:
    first = settle(pool, 2, SMALL)
    check_exactly(namespace, 2, 0.02)
    assert settle(pool, 3, SMALL)[:2] == first, "pods of the same shape must stay"
    assert settle(pool, 2, SMALL) == first
    assert not set(settle(pool, 2, WorkerSpec(num_cpus=0.01))) & set(first)
    check_exactly(namespace, 2, 0.01)
    namespace.kubectl("delete", "deployment", OWNER_NAME)
    kinds = ("services", "statefulsets", "pods")
    until(lambda: not [item for kind in kinds for item in namespace.items(kind)])
    until(lambda: "cannot create worker pods (404)" in pool.explain(), pool.explain)


def waits_for(pool: KubernetesPool, words: str, workers: int, shape: WorkerSpec) -> None:
    """Request workers that cannot start; wait until the pool's explanation has the words."""

    def says() -> bool:
        pool.scale(workers, shape, frozenset())
        return words in pool.explain()

    until(says, pool.explain)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("localhost/none:1", "worker image localhost/none:1 cannot be pulled: "),
        ("A/b:1", "worker image A/b:1 cannot be pulled: "),
        # The image has no Python.
        (IMAGE, "python3"),
    ],
)
def test_broken_images_are_explained(pool: KubernetesPool, image: str, words: str) -> None:
    waits_for(pool, words, 1, WorkerSpec(image=image))


def shell(script: str) -> Object:
    return {"command": ["sh", "-c", script]}


@pytest.mark.parametrize(
    ("part", "changes", "shape", "words"),
    [
        (
            *("network", shell("echo no NET_ADMIN; exit 2"), WorkerSpec(max_bandwidth=20.0)),
            "shaping what it sends failed: Error, exit code 2: no NET_ADMIN",
        ),
        (
            *("worker", {"envFrom": [{"secretRef": {"name": "none"}}]}, SMALL),
            '(CreateContainerConfigError): secret "none" not found',
        ),
        ("worker", shell("exit 3"), SMALL, "the worker's container ended: Error, exit code 3"),
        ("worker", shell("exec tail /dev/zero"), SMALL, "more memory was used than its limit (OOM"),
        ("pod", {"restartPolicy": "Never"}, SMALL, "rejects the worker pods as invalid (422): "),
    ],
)
def test_pods_that_do_not_start_are_explained(
    namespace: Namespace,
    tmp_path: Path,
    part: str,
    changes: Object,
    shape: WorkerSpec,
    words: str,
    stop: threading.Event,
) -> None:
    def change(stated: Object) -> None:
        pod = stated["statefulSet"]["spec"]["template"]["spec"]
        parts = {"pod": pod, "worker": pod["containers"][0], **stated["initContainers"]}
        parts[part].update(changes)

    path = write_manifest(tmp_path / "worker.json", namespace.name, change)
    waits_for(make_pool(path, namespace.name, stop), words, 1, shape)


def test_quotas_are_explained(pool: KubernetesPool, namespace: Namespace) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    namespace.apply({**quota, "spec": {"hard": {"services": "0", "pods": "1"}}})
    until(lambda: '"used"' in namespace.kubectl("get", "quota", "q", "-o", "json"))
    waits_for(pool, "refuses to create worker pods (403 Forbidden): ", 2, SMALL)
    assert "exceeded quota: q" in pool.explain()
    namespace.apply({**quota, "spec": {"hard": {"services": "1", "pods": "1"}}})
    created = "1 of 2 worker pods are created. If this does not change, see "
    ask = f"`kubectl -n {namespace.name} describe statefulset {NAME}`"
    waits_for(pool, created + ask, 2, SMALL)
