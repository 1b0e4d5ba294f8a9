"""Serving ``/metrics`` to clients that use an address of this machine, or localhost."""

import ipaddress
import socket
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app


def serve_metrics(port: int, host: str, registry: CollectorRegistry) -> WSGIServer:
    """Serve a registry in Prometheus's text format, in a thread that ends with the process.

    A Host header with a name is refused with 421: a web page could make that name lead here and
    read the answer (DNS rebinding). Prometheus uses addresses.

    Raises:
        OSError: the port is taken.
    """
    metrics: WSGIApplication = make_wsgi_app(registry)

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        header = environ.get("HTTP_HOST", "")
        is_ipv6 = header.startswith("[")
        name = header[1:].partition("]")[0] if is_ipv6 else header.partition(":")[0]
        # A browser always sends the header.
        if name.lower() in {"", "localhost"} or is_address(name):
            return metrics(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"Host: call this by its address, or as localhost\n"]

    kind = _IPv6Server if ":" in host else _Server
    server = make_server(host, port, app, kind, _SilentHandler)
    # The server of prometheus-client wakes twice a second to check for its end; this one hourly.
    serve = Thread(target=server.serve_forever, args=(3600.0,), daemon=True)
    serve.start()
    return server


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _IPv6Server(_Server):
    address_family = socket.AF_INET6


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log no request."""


def is_address(host: str) -> bool:
    """Check whether a host is an IP address, unlike names, which a web page can point here."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
