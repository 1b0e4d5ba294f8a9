"""``ApiClient``: how it finds its master, and how it ends."""

import os
from types import TracebackType

from mlbench import names
from mlbench.client.address import Address, parse_address
from mlbench.client.asking import Asker
from mlbench.client.connection import HINT_ELSEWHERE, find_connection
from mlbench.client.discovery import Place, find_pod, find_service
from mlbench.client.logs import LogCalls
from mlbench.client.metrics import MetricCalls
from mlbench.client.results import ResultCalls
from mlbench.client.runs import RunCalls
from mlbench.client.transport import Transport
from mlbench.home import Connection, Home


class ApiClient(RunCalls, LogCalls, ResultCalls, MetricCalls):
    """Talks to one master, in threads of its own: every method returns at once, with a future.

    ``future.result()`` waits for the ``Answer``: its ``value`` is typed, its ``json()``,
    ``status_code`` and ``content`` are what came over the wire. It raises ``ApiError`` where the
    master refuses, and ``NoAnswerError`` where it is away. Threads may share a client.

    A request is repeated by itself, for a few seconds, where the connection was refused; and, if
    it does no harm to carry it out twice, where the connection broke or the master asked for it
    (503 with Retry-After).

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
        """Find the master; without ``url`` the Kubernetes API is asked for it, here and now.

        Args:
            max_workers: how many requests go on at a time.
            in_cluster: whether this runs in a pod of the master's cluster: its pod is asked then,
                otherwise its service.
            label_selector: labels of the master's pod and service.
            k8s_namespace: where MLBench is installed.
            url: where the master is, ``host:port/path`` or a whole URL; it may carry the token, as
                in ``user:TOKEN@host:port``.
            load_config: whether to load the credentials for Kubernetes: the service account of
                the pod inside a cluster, kubectl's outside; otherwise the ``kubernetes`` package's
                default configuration is used.
            service_name: the master's service, where several have its labels.
            token: the user's token; by default the one in ``url``, or $MLBENCH_TOKEN.
            timeout_seconds: how long the master may be silent.
            hint: what to do where it does not answer, for the error that says so.

        Raises:
            DiscoveryError: the master was not found in the cluster.
            MLBenchError: ``url`` is no address.
        """
        if url is not None:
            address = parse_address(url)
        else:
            place = Place(k8s_namespace, label_selector, service_name)
            find = find_pod if in_cluster else find_service
            address = find(place, load_config=load_config)
        token = token or address.token or os.environ.get(names.ENV_TOKEN)
        address = Address(address.url, token, hint or address.hint)
        self._transport = Transport(address, timeout_seconds)
        self._asker = Asker(self._transport, max_workers)

    @classmethod
    def from_home(cls, home: Home | None = None) -> "ApiClient":
        """Return a client of the local stack with this home folder.

        Without one, it is the master that $MLBENCH_URL and $MLBENCH_TOKEN name, or else the
        running local stack.

        Raises:
            NotConnectedError: there is none.
        """
        return cls.from_connection(home.read_connection() if home else find_connection())

    @classmethod
    def from_connection(cls, connection: Connection) -> "ApiClient":
        """Return a client of the master that a connection leads to."""
        hint = HINT_ELSEWHERE if connection.elsewhere else None
        return cls(url=connection.url, token=connection.token, hint=hint)

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._asker.close(cancel=True)
        self.close()

    def close(self) -> None:
        """Wait for what was asked, and close the connections."""
        self._asker.close()
        self._transport.close()
