"""Discovery of the master: by environment variables, and in Kubernetes.

The tests use the ``kubernetes`` package without a cluster. A small HTTP server returns the JSON of
the Kubernetes API. The discovered master is a real one.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import kubernetes
import pytest

from mlbench import ApiClient
from mlbench.contract.errors import DiscoveryError, MLBenchError
from mlbench.local.discovery import ServiceLocation, find_connection, find_pod, find_service
from mlbench.local.home import Home, StackConnection
from tests.conftest import free_port
from tests.support.scripted import Asked, Reply, answering

_LABEL = "component=master,app=mlbench"
_PLACE = ServiceLocation("default", _LABEL)
_NODE_ADDRESSES = {"InternalIP": "10.0.0.4", "Hostname": "node-1"}


def pod(name: str = "master-0", ip: str = "10.1.0.7", *, ready: bool = True) -> dict[str, Any]:
    ports = [{"containerPort": 9090}, {"name": "http", "containerPort": 8000}]
    spec = {"nodeName": "node-1", "containers": [{"name": "api", "ports": ports}]}
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": "Running", "podIP": ip, "conditions": conditions}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def service(kind: str, name: str = "release-mlbench-master", **spec: object) -> dict[str, Any]:
    ports = [{"name": "metrics", "port": 9}, {"name": "http", "port": 80, "nodePort": 30080}]
    spec = {"type": kind, "ports": ports, "clusterIP": "10.96.0.5", **spec}
    status = {"loadBalancer": spec.pop("loadBalancer", {})}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


@dataclass
class Cluster:
    """A Kubernetes API with these services, pods and nodes."""

    url: str = ""
    services: list[dict[str, Any]] = field(default_factory=list)
    pods: list[dict[str, Any]] = field(default_factory=lambda: [pod()])
    node: dict[str, str] = field(default_factory=lambda: dict(_NODE_ADDRESSES))
    refusal: int | None = None

    def answer(self, asked: Asked) -> Reply:
        """Respond with all objects of one kind."""
        parts = urlsplit(asked.path)
        if self.refusal is not None:
            return Reply(self.refusal, {"kind": "Status", "reason": "Forbidden"})
        if parts.path == "/api/v1/nodes/node-1":
            addresses = [{"type": key, "address": value} for key, value in self.node.items()]
            return Reply(200, {"metadata": {}, "status": {"addresses": addresses}})
        assert parse_qs(parts.query) == {"labelSelector": [_LABEL]}
        here = parts.path.startswith("/api/v1/namespaces/default/")
        items = self.pods if parts.path.endswith("/pods") else self.services
        return Reply(200, {"items": items if here else []})


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster to which a kubeconfig file refers, as for kubectl."""
    cluster = Cluster()
    with answering(cluster.answer) as server:
        cluster.url = server.url
        path = tmp_path / "kubeconfig"
        context = {"name": "test", "context": {"cluster": "here", "user": "me"}}
        config: dict[str, Any] = {"current-context": "test", "contexts": [context]}
        config["clusters"] = [{"name": "here", "cluster": {"server": cluster.url}}]
        config["users"] = [{"name": "me", "user": {"token": "kubernetes-token"}}]
        path.write_text(json.dumps(config))  # JSON is valid YAML
        kube_config = kubernetes.config.kube_config
        monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
        yield cluster


def found(place: ServiceLocation = _PLACE) -> str:
    """Return the address discovered from outside the cluster."""
    return find_service(place, load_config=True).url


def found_inside(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> str:
    """Return the address discovered if the caller has configured the ``kubernetes`` package."""
    settings = kubernetes.client.Configuration(host=cluster.url)
    monkeypatch.setattr(kubernetes.client.Configuration, "_default", settings)
    return find_pod(_PLACE, load_config=False).url


# --- From outside: a service of each type. ---


@pytest.mark.parametrize(
    ("there", "address"),
    [
        (service("ClusterIP"), "http://10.96.0.5:80"),
        (service("ClusterIP", clusterIP="fd00::5"), "http://[fd00::5]:80"),
        (service("NodePort", externalIPs=["203.0.113.9"]), "http://203.0.113.9:30080"),
        (service("NodePort"), "http://10.0.0.4:30080"),
        (
            service("LoadBalancer", loadBalancer={"ingress": [{"ip": "203.0.113.7"}]}),
            "http://203.0.113.7:80",
        ),
        (
            service("LoadBalancer", loadBalancer={"ingress": [{"hostname": "lb.example.com"}]}),
            "http://lb.example.com:80",
        ),
        (service("ClusterIP", ports=[{"port": 8080}, {"port": 80}]), "http://10.96.0.5:80"),
        (service("ClusterIP", ports=[{"port": 8080}]), "http://10.96.0.5:8080"),
    ],
)
def test_a_service_has_an_address(cluster: Cluster, there: dict[str, Any], address: str) -> None:
    cluster.services = [there]
    assert found() == address
    # The external address of a node is preferred.
    cluster.node["ExternalIP"] = "203.0.113.4"
    assert found() == address.replace("10.0.0.4", "203.0.113.4")


def test_a_service_is_chosen_by_name(cluster: Cluster) -> None:
    two = service("ClusterIP", "two", clusterIP="10.96.0.6")
    cluster.services = [service("ClusterIP", "one"), two]
    assert found(ServiceLocation("default", _LABEL, "two")) == "http://10.96.0.6:80"
    with pytest.raises(DiscoveryError, match=r"several services .*: one, two\. Pass service_name"):
        found()
    with pytest.raises(DiscoveryError, match=r"no service 'three' with .*\(found: one, two\)"):
        found(ServiceLocation("default", _LABEL, "three"))


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ([], f"no service with label {_LABEL} in namespace 'default' .*master as url="),
        ([service("LoadBalancer")], "no load balancer yet. Wait for it, or use `kubectl port-forw"),
        ([service("ClusterIP", clusterIP="None")], r"\(type ClusterIP\) has no address"),
        ([service("ExternalName", ports=[])], "has no port"),
    ],
)
def test_a_missing_service_or_address_is_reported(
    cluster: Cluster, there: list[dict[str, Any]], message: str
) -> None:
    cluster.services = there
    with pytest.raises(DiscoveryError, match=message):
        found()


# --- From inside: the pod. ---


def test_the_ready_pod_is_found(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    leaving = pod("leaving", "10.1.0.5")
    leaving["metadata"]["deletionTimestamp"] = "2018-08-03T09:21:29Z"
    cluster.pods = [pod("starting", "10.1.0.6", ready=False), leaving, pod("ready")]
    assert found_inside(monkeypatch, cluster) == "http://10.1.0.7:8000"


def test_a_missing_ready_pod_is_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for pods, there in (([], "none"), ([pod(ready=False)], "master-0: Running, not ready")):
        cluster.pods = pods
        message = f"no ready pod with label {_LABEL} in namespace 'default' .found: {there}"
        with pytest.raises(DiscoveryError, match=message):
            found_inside(monkeypatch, cluster)


def test_a_missing_service_account_or_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DiscoveryError, match=r"Set in_cluster= .* master as url="):
        ApiClient()
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(DiscoveryError, match=r"pip install '\.\[kubernetes\]'"):
        ApiClient()


# --- Errors. ---


def test_a_refusal_names_the_missing_permission(cluster: Cluster) -> None:
    cluster.refusal = 403
    with pytest.raises(DiscoveryError, match=r"refused \(403 .*must be allowed to read pods"):
        found()


def test_an_unreachable_cluster_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    host = f"http://127.0.0.1:{free_port()}"
    settings = kubernetes.client.Configuration(host=host)
    monkeypatch.setattr(kubernetes.client.Configuration, "_default", settings)
    with pytest.raises(DiscoveryError, match=f"the Kubernetes API at {host} does not respond"):
        find_service(_PLACE, load_config=False)


# --- End to end. ---


def test_the_client_uses_the_discovered_master(
    cluster: Cluster, stack: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = stack.read_connection()
    port = httpx.URL(connection.url).port
    cluster.services = [service("ClusterIP", clusterIP="127.0.0.1", ports=[{"port": port}])]
    monkeypatch.setenv("MLBENCH_TOKEN", connection.token)
    with ApiClient(in_cluster=False) as client:
        assert client.get_worker_pods().result().status_code == 200
    monkeypatch.setenv("MLBENCH_URL", connection.url)
    with ApiClient.from_home() as client:
        assert client.get_worker_pods().result().status_code == 200


# --- Environment variables ---

_URL = "http://10.0.0.7:8000"
_LOCAL = StackConnection("http://127.0.0.1:8000", "local", "http://127.0.0.1:9090")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a local stack."""
    Home(tmp_path).write_connection(_LOCAL)
    return {"MLBENCH_HOME": str(tmp_path)}


def test_the_local_stack_is_the_default(environ: dict[str, str]) -> None:
    assert find_connection(environ) == _LOCAL
    assert find_connection({**environ, "MLBENCH_URL": "", "MLBENCH_TOKEN": ""}) == _LOCAL


@pytest.mark.parametrize(
    ("url", "token"),
    [
        *((url, "t") for url in (_URL, f"{_URL}/", "10.0.0.7:8000", "mlbench:other@10.0.0.7:8000")),
        ("mlbench:t%2F1@10.0.0.7:8000", ""),
    ],
)
def test_address_and_token_select_a_master(environ: dict[str, str], url: str, token: str) -> None:
    found = find_connection({**environ, "MLBENCH_URL": url, "MLBENCH_TOKEN": token})
    assert found == StackConnection(_URL, token or "t/1", prometheus_url=None, elsewhere=True)


@pytest.mark.parametrize("url", ["ftp://me:SECRET@host", "http://me:SECRET@", "http://me:SECRET"])
def test_a_malformed_address_is_refused_without_its_token(url: str) -> None:
    with pytest.raises(MLBenchError, match="MLBENCH_URL: must be host:port") as error:
        find_connection({"MLBENCH_URL": url})
    assert "SECRET" not in str(error.value)
