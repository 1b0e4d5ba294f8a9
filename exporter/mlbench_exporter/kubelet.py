"""Read the usage of a node's worker pods from the node's kubelet, at /metrics/cadvisor.

Only this endpoint of the kubelet has all series with the time of each measurement. (/stats/summary
lacks CPU time in user mode, threads and limits.) It is read with the standard library: the response
of a full node arrives in thousands of small pieces, which httpx assembles several times as slowly.
"""

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from pathlib import Path

from mlbench_exporter.cadvisor import WorkerPods, parse
from mlbench_exporter.exported_series import ExportedSample, SourceError

PATH = "/metrics/cadvisor"

# Limit on a response, so that it cannot fill the memory: ten times the size for 250 pods.
MAX_BYTES = 100_000_000
PIECE_BYTES = 1 << 18


@dataclass(frozen=True)
class KubeletSource:
    """Reads the worker pods of one release on one node, and the node, from the node's kubelet."""

    name = "kubelet"

    host: str
    """Name or address that is in the kubelet's certificate."""
    port: int
    token: Path
    """File with the token; read for every request, because Kubernetes replaces it."""
    ca: Path | None
    """File with the trusted certificates; None trusts every server."""
    timeout_seconds: float
    """Longest time for the complete response."""
    workers: WorkerPods
    node: str

    def read(self) -> Sequence[ExportedSample]:
        """Return the samples of the node and of its worker pods."""
        deadline = time.monotonic() + self.timeout_seconds
        try:
            headers = {"Authorization": f"Bearer {self.token.read_text().strip()}"}
            context = ssl.create_default_context(cadata=self.ca.read_text() if self.ca else None)
            # From Python 3.13 on, it would refuse the CAs of many clusters, which lack extensions
            # that Kubernetes does not need.
            context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST
            if not self.ca:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            connection = HTTPSConnection(
                self.host, self.port, timeout=self.timeout_seconds, context=context
            )
            with closing(connection):
                connection.connect()
                with _hanging_up(connection.sock, deadline):
                    connection.request("GET", PATH, headers=headers)
                    samples = parse(_lines(connection.getresponse()), self.workers, self.node)
            if time.monotonic() >= deadline:  # the end may be caused by the timer
                raise TimeoutError
            return samples
        except (HTTPException, OSError, SourceError) as error:
            if isinstance(error, ssl.SSLCertVerificationError):
                problem = (
                    f"its certificate cannot be verified: {error.verify_message}. "
                    "Set --kubelet-ca to the file with its CA certificates."
                )
            elif time.monotonic() >= deadline:
                problem = f"no complete response within {self.timeout_seconds:g} s"
            elif isinstance(error, SourceError):
                problem = str(error)
            else:
                problem = f"{type(error).__name__}: {error}"
            raise SourceError(f"https://{self.host}:{self.port}{PATH}: {problem}") from error


@contextmanager
def _hanging_up(sock: socket.socket, deadline: float) -> Iterator[None]:
    """Close the connection at the deadline, so that all waiting calls fail."""

    def hang_up() -> None:
        with suppress(OSError):  # already closed
            # Call socket.shutdown directly: SSLSocket.shutdown is not thread-safe.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(deadline - time.monotonic(), hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    """Yield the complete lines of a response. An incomplete last line is dropped."""
    if response.status != HTTPStatus.OK:
        reason = response.read(300).decode(errors="replace").strip()
        raise SourceError(f"{response.status} {response.reason}: {reason}")
    received, rest = 0, b""
    while piece := response.read(PIECE_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        received += len(piece)
        if received > MAX_BYTES:
            raise SourceError(f"response too large: more than {MAX_BYTES / 1e6:.0f} MB")
    if response.length:
        raise IncompleteRead(b"", response.length)
