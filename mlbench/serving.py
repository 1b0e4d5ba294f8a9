"""Serving ``/metrics``, to those who call this machine by its own name or by an address."""

import ipaddress
from collections.abc import Iterable
from threading import Thread
from wsgiref.simple_server import WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, start_http_server


def serve_metrics(port: int, host: str, registry: CollectorRegistry) -> tuple[WSGIServer, Thread]:
    """Serve a registry in Prometheus's text format, on a thread.

    A Host that is a name is refused with 421: a web page could have it lead here, and read what is
    answered (DNS rebinding). Prometheus calls pods by their addresses.

    Raises:
        OSError: something else has the port.
    """
    server, thread = start_http_server(port, host, registry)
    app = server.get_app()
    assert app is not None
    server.set_app(_only_here(app))
    return server, thread


def is_address(host: str) -> bool:
    """Return whether a host is an address: nobody else can make that lead here."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _only_here(app: WSGIApplication) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        host = _without_port(environ.get("HTTP_HOST", ""))
        # Without the header, it is no browser.
        if host.lower() in {"", "localhost"} or is_address(host):
            return app(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"Host: call this by its address, or as localhost\n"]

    return answer


def _without_port(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
