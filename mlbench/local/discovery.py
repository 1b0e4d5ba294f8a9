"""Finding the master: by the environment, the local stack, or the Kubernetes API."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from mlbench.contract import names
from mlbench.contract.address import Address, parse_address
from mlbench.contract.distribution import how_to_install
from mlbench.contract.errors import DiscoveryError, MLBenchError, NotConnectedError
from mlbench.local.home import Home, StackConnection

HINT_ELSEWHERE = (
    f"is ${names.ENV_URL} right? For a forwarded port, is `kubectl port-forward` running?"
)
# The name of the API's port in the chart, and the port of the original MLBench.
_PORT_NAME = "http"
_PORT = 80
# Seconds to connect and to answer, for each request to the Kubernetes API.
_TIMEOUT = (5, 10)
_OR_NAME_IT = "Or pass the address of the master as url=."
_NOT_THERE = (
    f"Is MLBench installed there? Set k8s_namespace= and label_selector= to where it is. "
    f"{_OR_NAME_IT}"
)
_INSIDE = "pod addresses work only inside the cluster; from outside, pass in_cluster=False"


def find_connection(environ: Mapping[str, str] = os.environ) -> StackConnection:
    """Return the connection to the master at $MLBENCH_URL, or else to the running local stack.

    $MLBENCH_TOKEN is its token, unless the address carries one. $MLBENCH_PROMETHEUS_URL and
    $GRAFANA_URL may name its Prometheus and Grafana. NotConnectedError if only one of address and
    token is set, or no local stack is running; MLBenchError if $MLBENCH_URL is not an address.
    """
    url, token = environ.get(names.ENV_URL), environ.get(names.ENV_TOKEN)
    if not url:
        if token:
            raise NotConnectedError(
                f"${names.ENV_TOKEN} is set, but ${names.ENV_URL} is not. Set it to the address of "
                "this token's master, or unset the token to use the local stack."
            )
        return Home.from_environ(environ).read_connection()
    try:
        address = parse_address(url)
    except MLBenchError as error:
        # Do not echo the URL: it may contain a token.
        raise MLBenchError(str(error).replace("url:", f"${names.ENV_URL}:")) from None
    token = token or address.token
    if not token:
        raise NotConnectedError(
            f"${names.ENV_URL} is set, but ${names.ENV_TOKEN} is not. Set it to the token of this "
            "master; in a cluster, a Secret contains it."
        )
    return StackConnection(
        address.url,
        token,
        environ.get(names.ENV_PROMETHEUS_URL) or None,
        environ.get(names.ENV_GRAFANA_URL) or None,
        elsewhere=True,
    )


def find_token(address: Address, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return $MLBENCH_TOKEN; None if $MLBENCH_URL says that it is the token of another master."""
    own = environ.get(names.ENV_URL)
    try:
        is_own = not own or parse_address(own).url == address.url
    except MLBenchError:
        is_own = False  # a malformed address is not a master's
    return environ.get(names.ENV_TOKEN) if is_own else None


@dataclass(frozen=True)
class ServiceLocation:
    """Namespace and labels by which to find the master in a cluster."""

    namespace: str
    label_selector: str
    service_name: str | None = None

    def __str__(self) -> str:
        return f"label {self.label_selector} in namespace {self.namespace!r}"


def find_pod(place: ServiceLocation, *, load_config: bool) -> Address:
    """Return the address of the master's pod, which only pods of its cluster reach.

    Without ``load_config``, the caller has set the ``kubernetes`` package's default configuration;
    otherwise the pod's own service account is used. DiscoveryError if no such pod is ready.
    """
    with _kubernetes("load_incluster_config" if load_config else None) as core:
        pod = _find_ready_pod(core, place)
    ports = [port for container in pod.spec.containers for port in container.ports or []]
    port = _pick_port(ports, "container_port")
    return _address(pod.status.pod_ip, port.container_port if port else _PORT, _INSIDE)


def find_service(place: ServiceLocation, *, load_config: bool) -> Address:
    """Return the address of the master's service, for clients outside its cluster.

    ``load_config`` is as for ``find_pod``, with the kubeconfig file that kubectl uses.
    DiscoveryError if there is no such service, there are several, or it has no address.
    """
    with _kubernetes("load_kube_config" if load_config else None) as core:
        services = _labelled(core.list_namespaced_service, place)
        matches = [s for s in services if place.service_name in {None, s.metadata.name}]
        if len(matches) != 1:
            names = ", ".join(sorted(service.metadata.name for service in services)) or "none"
            if matches:
                raise DiscoveryError(f"several services with {place}: {names}. Pass service_name=.")
            absent = f"service {place.service_name!r}" if place.service_name else "service"
            raise DiscoveryError(f"no {absent} with {place} (found: {names}). {_NOT_THERE}")
        [service] = matches
        name, spec = service.metadata.name, service.spec
        port = _pick_port(spec.ports or [], "port")
        if port is None:
            raise DiscoveryError(f"service {name} has no port")
        forward = (
            f"`kubectl port-forward --namespace {place.namespace} service/{name} 8000:{port.port}` "
            'with url="127.0.0.1:8000"'
        )
        if spec.type == "NodePort":
            # The attribute's name differs between versions of the package; JSON's does not.
            external = core.api_client.sanitize_for_serialization(spec).get("externalIPs")
            if external:
                return _address(external[0], port.node_port, forward)
            node_name = _find_ready_pod(core, place).spec.node_name
            node = core.read_node(node_name, _request_timeout=_TIMEOUT)
            addresses = reversed(node.status.addresses or [])
            by_type = {address.type: address.address for address in addresses}
            for kind in ("ExternalIP", "ExternalDNS", "InternalIP"):
                if kind in by_type:
                    return _address(by_type[kind], port.node_port, forward)
            raise DiscoveryError(f"node {node_name} has no address. {_OR_NAME_IT}")
    if spec.type == "LoadBalancer":
        for ingress in service.status.load_balancer.ingress or []:
            if host := ingress.ip or ingress.hostname:
                return _address(host, port.port, forward)
        raise DiscoveryError(
            f"service {name} has no load balancer yet. Wait for it, or use {forward}"
        )
    if spec.type == "ClusterIP" and spec.cluster_ip not in {None, "", "None"}:
        return _address(spec.cluster_ip, port.port, forward)
    raise DiscoveryError(f"service {name} (type {spec.type}) has no address. Use {forward}")


def _find_ready_pod(core: Any, place: ServiceLocation) -> Any:
    pods = _labelled(core.list_namespaced_pod, place)
    for pod in pods:
        conditions = pod.status.conditions or []
        ready = any(part.type == "Ready" and part.status == "True" for part in conditions)
        if ready and pod.metadata.deletion_timestamp is None:
            return pod
    phases = ", ".join(f"{pod.metadata.name}: {pod.status.phase}, not ready" for pod in pods)
    raise DiscoveryError(f"no ready pod with {place} (found: {phases or 'none'}). {_NOT_THERE}")


def _labelled(ask: Callable[..., Any], place: ServiceLocation) -> Any:
    return ask(
        place.namespace, label_selector=place.label_selector, _request_timeout=_TIMEOUT
    ).items


def _pick_port(ports: list[Any], number: str) -> Any:
    """Return the API's port: the one with its name, else with its number, else the first."""
    named = [port for port in ports if port.name == _PORT_NAME]
    usual = [port for port in ports if getattr(port, number) == _PORT]
    return next(iter([*named, *usual, *ports]), None)


def _address(host: str, port: int, hint: str) -> Address:
    shown = f"[{host}]" if ":" in host else host
    return replace(parse_address(f"{shown}:{port}"), hint=hint)


@contextmanager
def _kubernetes(load: str | None) -> Iterator[Any]:
    """Give the Kubernetes API, and turn its errors into DiscoveryErrors."""
    try:
        import kubernetes  # noqa: PLC0415 - needed for this only
        import urllib3  # noqa: PLC0415 - raises its errors
    except ImportError:
        raise DiscoveryError(
            "finding the master in a cluster requires the package kubernetes. "
            f"Run {how_to_install('kubernetes')}. {_OR_NAME_IT}"
        ) from None
    settings = kubernetes.client.Configuration.get_default_copy()
    try:
        if load is not None:
            getattr(kubernetes.config, load)(client_configuration=settings)
        with kubernetes.client.ApiClient(settings) as api:
            yield kubernetes.client.CoreV1Api(api)
    except kubernetes.config.ConfigException as error:
        raise DiscoveryError(
            f"cannot connect to the Kubernetes API ({error}). Set in_cluster= to whether this runs "
            f"inside the cluster. {_OR_NAME_IT}"
        ) from error
    except kubernetes.client.ApiException as error:
        raise DiscoveryError(
            f"the Kubernetes API refused ({error.status} {error.reason}). The credentials must "
            f"be allowed to read pods, services and nodes. {_OR_NAME_IT}"
        ) from error
    except urllib3.exceptions.HTTPError as error:
        raise DiscoveryError(
            f"the Kubernetes API at {settings.host} does not respond: {error}. {_OR_NAME_IT}"
        ) from error
