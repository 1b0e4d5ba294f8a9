"""Serving ``/metrics`` to clients that use an address of this machine, or localhost."""

import ipaddress
from collections.abc import Iterable
from threading import Thread
from wsgiref.simple_server import WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, start_http_server


def serve_metrics(port: int, host: str, registry: CollectorRegistry) -> tuple[WSGIServer, Thread]:
    """Serve a registry in Prometheus's text format, in a thread.

    A Host header with a name is refused with 421: a web page could make that name lead here and
    read the answer (DNS rebinding). Prometheus uses addresses.

    Raises:
        OSError: the port is taken.
    """
    server, thread = start_http_server(port, host, registry)
    app = server.get_app()
    assert app is not None
    server.set_app(_only_here(app))
    return server, thread


def is_address(host: str) -> bool:
    """Check whether a host is an address, which no web page can make lead here."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _only_here(app: WSGIApplication) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        host = _without_port(environ.get("HTTP_HOST", ""))
        # A browser always sends the header.
        if host.lower() in {"", "localhost"} or is_address(host):
            return app(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"Host: call this by its address, or as localhost\n"]

    return answer


def _without_port(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
