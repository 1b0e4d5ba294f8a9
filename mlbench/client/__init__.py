"""The client of the master's REST API."""

from concurrent.futures import Future

from mlbench.client.base import api_path, decoder
from mlbench.client.metrics import MetricsApi, Sample
from mlbench.client.results import ResultsApi
from mlbench.client.runs import RunsApi
from mlbench.client.transport import HttpClient, Response
from mlbench.contract.address import Address, parse_address
from mlbench.contract.original import MLBENCH_BACKENDS, MLBENCH_IMAGES
from mlbench.contract.people import Role
from mlbench.contract.records import Alert, Benchmark, Info, JoinToken, Pod, Storage
from mlbench.local.discovery import (
    HINT_ELSEWHERE,
    ServiceLocation,
    find_connection,
    find_pod,
    find_service,
    find_token,
)
from mlbench.local.home import Home, StackConnection

__all__ = ["MLBENCH_BACKENDS", "MLBENCH_IMAGES", "ApiClient", "Sample"]


class ApiClient(RunsApi, ResultsApi, MetricsApi):
    """A client of one master. Every method returns at once, with a future.

    ``future.result()`` waits for the ``Response``: its ``value`` is typed; its ``json()``,
    ``status_code`` and ``content`` are what was received. It raises ``ApiError`` if the master
    refuses, and ``NoResponseError`` if it does not respond. Threads may share a client.

    Requests are repeated for a few seconds if the connection was refused, and, if carrying them out
    twice does no harm, also if it broke or the master asks for it (503 with Retry-After).

        with ApiClient(url="127.0.0.1:8000", token="…") as client:
            runs = client.get_runs().result().value
    """

    def __init__(
        self,
        max_workers: int = 5,
        in_cluster: bool = True,
        label_selector: str = "component=master,app=mlbench",
        k8s_namespace: str = "default",
        url: str | None = None,
        load_config: bool = True,
        *,
        service_name: str | None = None,
        token: str | None = None,
        timeout_seconds: float = 30.0,
        hint: str | None = None,
    ) -> None:
        """Find the master; without ``url`` by asking the Kubernetes API.

        Args:
            max_workers: how many requests are sent at a time.
            in_cluster: whether this runs in a pod of the master's cluster. It connects to the
                master's pod then, otherwise to its service.
            label_selector: labels of the master's pod and service.
            k8s_namespace: where MLBench is installed.
            url: where the master is, ``host:port/path`` or a whole URL. It may have the token, as
                in ``user:TOKEN@host:port``.
            load_config: whether to load the credentials for Kubernetes: the pod's service account
                inside a cluster, kubectl's outside. Otherwise the ``kubernetes`` package's default
                configuration is used.
            service_name: the master's service, if several have its labels.
            token: the user's token; empty to send none. By default the one in ``url``, or
                $MLBENCH_TOKEN, unless $MLBENCH_URL says that it is the token of another master.
            timeout_seconds: the longest wait for data from the master, in seconds.
            hint: advice for the error message if the master does not respond.

        Raises:
            DiscoveryError: the master was not found in the cluster.
            MLBenchError: ``url`` is not an address.
        """
        if url is not None:
            address = parse_address(url)
        else:
            place = ServiceLocation(k8s_namespace, label_selector, service_name)
            find = find_pod if in_cluster else find_service
            address = find(place, load_config=load_config)
        if token is None:
            token = address.token or find_token(address)
        address = Address(address.url, token, hint or address.hint)
        self._http = HttpClient(address, timeout_seconds, max_workers)

    @classmethod
    def from_home(cls, home: Home | None = None) -> "ApiClient":
        """Connect to the stack of a home folder, or else as ``find_connection`` says."""
        return cls.from_connection(home.read_connection() if home else find_connection())

    @classmethod
    def from_connection(cls, connection: StackConnection) -> "ApiClient":
        """Connect to the master of a connection."""
        hint = HINT_ELSEWHERE if connection.elsewhere else None
        return cls(url=connection.url, token=connection.token, hint=hint)

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._http.close(cancel=error is not None)

    def close(self) -> None:
        """Wait for the requests, and close the connections."""
        self._http.close()

    # --- The installation ---

    def get_worker_pods(self) -> Future[Response[list[Pod]]]:
        """Get all worker pods."""
        return self._get("/api/pods/", list[Pod])

    def get_benchmarks(self) -> Future[Response[list[Benchmark]]]:
        """Get the official benchmarks."""
        return self._get("/api/benchmarks/", list[Benchmark])

    def get_alerts(self) -> Future[Response[list[Alert]]]:
        """Get the firing alerts, the oldest first."""
        return self._get("/api/alerts/", list[Alert])

    def get_info(self) -> Future[Response[Info]]:
        """Get the version, pool and run limits of the installation."""
        return self._get("/api/info/", Info)

    def get_storage(self) -> Future[Response[Storage]]:
        """Get the sizes of Prometheus, the database and the archives, and the missing samples."""
        return self._get("/api/info/storage/", Storage)

    # --- Named tokens ---

    def get_tokens(self) -> Future[Response[list[JoinToken]]]:
        """Get the named tokens that have not expired, the oldest first, without their texts."""
        return self._get("/api/tokens/", list[JoinToken])

    def create_token(
        self, name: str = "", days: int = 30, role: Role = "record"
    ) -> Future[Response[JoinToken]]:
        """Create a token, valid for ``days``; only this answer contains its text."""
        body = {"name": name, "days": days, "role": role}
        # Not repeated, because the first token would be lost.
        return self._post("/api/tokens/", JoinToken, body, repeatable=False)

    def revoke_token(self, token_id: str) -> Future[Response[JoinToken]]:
        """Revoke a named token, with the sessions that it began."""
        return self._http.request("DELETE", api_path("tokens", token_id), decoder(JoinToken))
