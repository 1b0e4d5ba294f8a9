"""A real HTTP server in front of a cluster's API, or of a small stand-in, that can make it fail."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.scripted import Asked, Reply, answering


@dataclass(frozen=True)
class Fault:
    """What is answered instead of what is right."""

    status: int = 0
    """0: nothing, the connection is cut."""
    message: str = "made to fail"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_seconds: float = 0.0
    after: bool = False
    """Whether the cluster does what it is asked, and only its answer is lost."""

    @property
    def reply(self) -> Reply:
        """Return what is answered."""
        status = {"kind": "Status", "message": self.message}
        headers = tuple(self.headers.items())
        return Reply(self.status or None, status, headers, seconds=self.hang_seconds, hangs_up=True)


@dataclass(frozen=True)
class Request:
    """What a client asks."""

    verb: str
    """As Kubernetes calls it: a GET with ``watch`` is a WATCH."""
    path: str
    query: Mapping[str, str]
    body: bytes
    content: str

    @property
    def kind(self) -> str:
        """What it is about: pods, services, statefulsets or deployments."""
        return self.path.split("/namespaces/")[1].split("/")[1]


Answer = tuple[int, Iterator[bytes]]
Backend = Callable[[Request], Answer]
Spoiler = Callable[[Request], Fault | None]


@dataclass
class Proxy:
    """A server that lets requests through unless it is told to spoil them."""

    port: int
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The verb and kind of every request, in order."""
    spoil: Spoiler = lambda request: None

    def write_config(self, path: Path) -> None:
        """Write what leads a client here."""
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        config = {
            "clusters": [cluster],
            "contexts": [context],
            "users": [{"name": "u", "user": {}}],
        }
        path.write_text(json.dumps({**config, "current-context": "x"}))


@contextmanager
def serve(backend: Backend) -> Iterator[Proxy]:
    """Serve a backend's answers on a free port."""

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
