"""An HTTP proxy in front of a cluster's API, or of a fake of it, that can inject failures."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.scripted import Asked, Reply, answering


@dataclass(frozen=True)
class Fault:
    """A failure to send instead of the backend's response."""

    status: int = 0
    """HTTP status; 0 closes the connection without a response."""
    message: str = "made to fail"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_seconds: float = 0.0
    after: bool = False
    """Whether the backend handles the request first, so that only its response is lost."""

    @property
    def reply(self) -> Reply:
        status = {"kind": "Status", "message": self.message}
        headers = tuple(self.headers.items())
        return Reply(self.status or None, status, headers, seconds=self.hang_seconds, hangs_up=True)


@dataclass(frozen=True)
class Request:
    """A request to the Kubernetes API."""

    verb: str
    """Kubernetes verb: the HTTP method, or WATCH for a GET with ``watch``."""
    path: str
    query: Mapping[str, str]
    body: bytes
    content: str

    @property
    def kind(self) -> str:
        """Resource type: pods, services, statefulsets or deployments."""
        return self.path.split("/namespaces/")[1].split("/")[1]


Answer = tuple[int, Iterator[bytes]]
Backend = Callable[[Request], Answer]
Spoiler = Callable[[Request], Fault | None]


@dataclass
class Proxy:
    """A server that forwards requests, unless ``spoil`` returns a fault for them."""

    port: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Verb and resource type of each request, in order."""
    spoil: Spoiler = lambda request: None

    def write_config(self, path: Path) -> None:
        """Write a kubeconfig for this proxy."""
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {}}
        config = {"clusters": [cluster], "contexts": [context], "users": [user]}
        path.write_text(json.dumps({**config, "current-context": "x"}))


@contextmanager
def serve(backend: Backend) -> Iterator[Proxy]:
    """Serve the backend on a free port."""

    def answer(asked: Asked) -> Reply:
        request = _request(asked)
        proxy.asked.append((request.verb, request.kind))
        fault = proxy.spoil(request)
        if fault and not fault.after:
            return fault.reply
        status, pieces = backend(request)
        return fault.reply if fault else Reply(status, pieces)

    with answering(answer) as server:
        proxy = Proxy(server.port)
        yield proxy


def _request(asked: Asked) -> Request:
    address = urlsplit(asked.path)
    query = {name: values[0] for name, values in parse_qs(address.query).items()}
    verb = "WATCH" if "watch" in query else asked.method
    content = asked.headers.get("Content-Type", "")
    return Request(verb, address.path, query, asked.body, content)
