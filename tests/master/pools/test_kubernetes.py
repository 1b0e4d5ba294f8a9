"""The Kubernetes pool against a fake cluster over HTTP: requests, failures and recovery."""

import random
import threading
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from mlbench.contract.runspec import WorkerSpec
from mlbench_master.pools import kubernetes
from mlbench_master.pools.kubernetes import KubernetesPool
from mlbench_master.pools.manifests import PodManifest, load, make_stateful_set
from mlbench_master.settings import InstallationLimits
from tests.conftest import wait_for
from tests.master.pools.made import LIMITS, NAME, OWNER, OWNER_NAME, make_pool
from tests.master.pools.proxy import Fault, Proxy, Request
from tests.master.pools.standin import StandIn

SMALL = WorkerSpec(num_cpus=0.5)
CHANGES = {"PATCH", "DELETE"}


@pytest.fixture
def cluster() -> StandIn:
    return StandIn({"deployments": {OWNER_NAME: OWNER}})


@pytest.fixture
def pool(proxy: Proxy, manifest_path: Path, stop: threading.Event) -> KubernetesPool:
    return make_pool(manifest_path, "here", stop)


def settle(pool: KubernetesPool, workers: int, shape: WorkerSpec = SMALL) -> list[str]:
    """Scale the pool, wait until its workers are usable, and return their uids."""

    def is_there() -> bool:
        pool.scale(workers, shape, frozenset())
        pods = pool.pods() or []
        return [pod.usable for pod in pods] == [True] * workers and not pool.explain()

    wait_for(is_there)
    return uids(pool)


def uids(pool: KubernetesPool) -> list[str]:
    return [pod.uid for pod in pool.pods() or []]


def changes(proxy: Proxy) -> list[tuple[str, str]]:
    return [asked for asked in proxy.asked if asked[0] in CHANGES]


def test_the_pool_is_configured_by_the_environment(
    proxy: Proxy, manifest_path: Path, monkeypatch: pytest.MonkeyPatch, stop: threading.Event
) -> None:
    monkeypatch.setenv("MLBENCH_WORKER_MANIFEST", str(manifest_path))
    monkeypatch.setenv("MLBENCH_NAMESPACE", "here")
    monkeypatch.setenv("MLBENCH_OWNER", OWNER_NAME)
    registry = CollectorRegistry()
    pool = kubernetes.open_pool(InstallationLimits(), registry, stop)
    wait_for(lambda: pool.pods() == [])
    name, labels = "mlbench_kubernetes_requests_total", {"verb": "GET", "status": "200"}
    assert (registry.get_sample_value(name, labels) or 0) > 0


def test_pods_are_created_and_placed(pool: KubernetesPool, proxy: Proxy) -> None:
    settle(pool, 2)
    assert set(changes(proxy)) == {("PATCH", "services"), ("PATCH", "statefulsets")}
    first, second = pool.pods() or []
    placement = pool.place((second, first), SMALL)
    assert placement.hosts == [second.ip, first.ip]
    assert (placement.master_addr, placement.master_port) == (second.ip, 29500)


def test_no_change_is_requested_without_a_difference(pool: KubernetesPool, proxy: Proxy) -> None:
    settle(pool, 2)
    lists = ("GET", "statefulsets")
    # One change may follow, based on a list from before the last change.
    calm = proxy.asked.count(lists) + 2
    wait_for(lambda: proxy.asked.count(lists) > calm)
    before = len(changes(proxy))
    for _ in range(20):
        pool.scale(2, SMALL, frozenset())
    wait_for(lambda: proxy.asked.count(lists) > calm + 4)
    assert len(changes(proxy)) == before


def test_another_shape_replaces_the_pods(pool: KubernetesPool, cluster: StandIn) -> None:
    before = settle(pool, 2)
    pool.scale(3, WorkerSpec(), frozenset())
    usable = {pod.uid for pod in pool.pods() or [] if pod.usable}
    assert not usable & {*before}, "pods of the previous shape must not be usable"
    assert not set(settle(pool, 3, WorkerSpec())) & set(before)
    settle(pool, 1, WorkerSpec())
    assert list(cluster.objects["pods"]) == [f"{NAME}-0"]


def test_pods_with_a_rank_stay_until_it_exits(pool: KubernetesPool) -> None:
    busy, idle = settle(pool, 2)
    pool.scale(2, WorkerSpec(), frozenset({busy}))
    wait_for(lambda: idle not in uids(pool))
    assert uids(pool)[0] == busy
    wait_for(lambda: [pod.usable for pod in pool.pods() or []] == [True, True])
    assert busy not in settle(pool, 2, WorkerSpec())


def test_surplus_pods_are_not_reused_by_a_larger_run(pool: KubernetesPool, proxy: Proxy) -> None:
    before = settle(pool, 4)
    # The cluster has the new size, but has not deleted any pod yet.
    proxy.spoil = lambda request: Fault(hang_seconds=0.5) if request.verb == "PATCH" else None
    pool.scale(2, SMALL, frozenset())
    wait_for(lambda: [pod.phase for pod in pool.pods() or []][2:] == ["Terminating"] * 2)
    pool.scale(4, SMALL, frozenset())
    assert [pod.usable for pod in pool.pods() or []] == [True, True, False, False]
    proxy.spoil = lambda request: None
    after = settle(pool, 4)
    assert after[:2] == before[:2]
    assert not set(after[2:]) & set(before)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(403, "quota"), "refuses to create worker pods (403 Forbidden): quota"),
        (Fault(422, "spec.x: odd"), "rejects the worker pods as invalid (422): spec.x: odd"),
        (Fault(500, "out of order"), "cannot create worker pods (500): out of order"),
        (Fault(404, "no owner"), "cannot create worker pods (404): no owner"),
        (Fault(0), "API does not respond: "),
    ],
)
def test_refusals_are_shown(pool: KubernetesPool, proxy: Proxy, fault: Fault, words: str) -> None:
    refused = ("GET", "deployments") if fault.status == 404 else ("PATCH", "services")
    proxy.spoil = lambda request: fault if (request.verb, request.kind) == refused else None
    pool.scale(2, SMALL, frozenset())
    wait_for(lambda: words in pool.explain())
    proxy.spoil = lambda request: None
    settle(pool, 2)


def test_retry_after_is_respected(pool: KubernetesPool, proxy: Proxy) -> None:
    slow = Fault(429, headers={"Retry-After": "1"})
    proxy.spoil = lambda request: slow if request.verb == "PATCH" else None
    pool.scale(2, SMALL, frozenset())
    wait_for(lambda: bool(changes(proxy)))
    first = time.monotonic()
    wait_for(lambda: len(changes(proxy)) > 1)
    assert time.monotonic() - first > 0.9
    assert changes(proxy) == [("PATCH", "services")] * 2, "other requests must wait too"


@pytest.mark.parametrize(("kind", "fault"), [("pods", Fault(403)), ("services", Fault(0))])
def test_the_last_known_pods_are_used_while_the_cluster_is_unreachable(
    pool: KubernetesPool, proxy: Proxy, kind: str, fault: Fault
) -> None:
    settle(pool, 2)
    proxy.spoil = lambda request: fault if request.kind == kind else None
    wait_for(lambda: pool.explain() != "")
    assert [pod.usable for pod in pool.pods() or []] == [True, True]
    proxy.spoil = lambda request: None
    settle(pool, 3)


def test_pods_are_unknown_before_the_first_list(pool: KubernetesPool) -> None:
    pool = KubernetesPool(pool._api, pool._settings, pool._manifest, pool._limits)
    assert pool.pods() is None
    assert pool.explain() == "the cluster's pods are not known yet"


@pytest.mark.parametrize(("nth", "after"), [(1, False), (1, True), (2, True), (3, False)])
def test_a_restarted_controller_completes_interrupted_changes(
    proxy: Proxy, cluster: StandIn, manifest_path: Path, nth: int, after: bool
) -> None:
    """The controller is killed at its nth change, before or after the cluster carries it out."""

    def drive(workers: int, cores: float, kill_at: int = 0) -> None:
        """Scale with a new pool until the cluster matches, or until the pool is killed."""
        killed, before = threading.Event(), len(changes(proxy))

        def spoil(request: Request) -> Fault | None:
            if request.verb not in CHANGES or len(changes(proxy)) - before < kill_at:
                return None
            killed.set()
            return Fault(after=after)

        proxy.spoil = spoil if kill_at else lambda request: None
        shape = WorkerSpec(num_cpus=cores)
        made = make_stateful_set(load(manifest_path), LIMITS, shape, workers)
        make_pool(manifest_path, "here", killed).scale(workers, shape, frozenset())
        wait_for(killed.is_set if kill_at else lambda: cluster.has_exactly(made))
        killed.set()

    # First it creates Service and StatefulSet. Then it changes the StatefulSet and deletes old
    # pods.
    drive(2, 0.5, kill_at=min(nth, 2))
    drive(2, 0.5)
    drive(3, 0.25, kill_at=nth)
    drive(3, 0.25)


def test_the_pool_converges_despite_random_failures(
    pool: KubernetesPool, proxy: Proxy, cluster: StandIn, manifest: PodManifest
) -> None:
    """Includes changes that the cluster carried out although the response was lost."""
    dice = random.Random(2)  # noqa: S311 - dice, not secrets
    faults = [Fault(status) for status in (0, 403, 409, 410, 422, 500, 503)]
    faults += [Fault(after=True), Fault(500, after=True)] * 3
    proxy.spoil = lambda request: dice.choice(faults) if dice.random() < 0.4 else None
    for workers, cores in ((2, 0.5), (3, 0.25), (1, 0.5)):
        shape = WorkerSpec(num_cpus=cores)
        settle(pool, workers, shape)
        made = make_stateful_set(manifest, LIMITS, shape, workers)
        wait_for(lambda: cluster.has_exactly(made))  # noqa: B023
