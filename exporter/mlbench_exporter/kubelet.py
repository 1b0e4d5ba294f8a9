"""Reads the usage of a node's worker pods from the node's kubelet, at /metrics/cadvisor.

No other endpoint of the kubelet has all the series (/stats/summary lacks CPU time in user mode,
threads and limits), each value with the time at which it was measured. It is read with the
standard library: a full node's answer comes in thousands of small pieces, which httpx takes several
times as long to put together.
"""

import socket
import ssl
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from pathlib import Path

from mlbench_exporter.cadvisor import WorkerPods, parse
from mlbench_exporter.series import Sample, SourceError

PATH = "/metrics/cadvisor"

# Ten times what 250 pods make; no kubelet's answer may fill the memory.
MAX_BYTES = 100_000_000
_PIECE_BYTES = 1 << 18
_REASON_BYTES = 300


@dataclass(frozen=True)
class KubeletSource:
    """Reads the worker pods of one release on one node, and the node, from the node's kubelet."""

    name = "kubelet"

    host: str
    """Name or address, as the kubelet's certificate has it."""
    port: int
    token: Path
    """File of the token to show: read anew each time, as Kubernetes replaces it."""
    ca: Path | None
    """File of the certificates to trust; None trusts whoever answers."""
    timeout_seconds: float
    """How long the whole answer may take."""
    workers: WorkerPods
    node: str

    def read(self) -> Sequence[Sample]:
        """Return the samples of the worker pods that the kubelet knows, and of the node."""
        try:
            with closing(self._get()) as pieces:
                return parse(pieces, self.workers, self.node)
        except SourceError as error:
            raise SourceError(f"https://{self.host}:{self.port}{PATH}: {error}") from error

    def _get(self) -> Generator[bytes, None, None]:
        """Yield the body of the kubelet's answer, piece by piece."""
        deadline = time.monotonic() + self.timeout_seconds
        try:
            headers = {"Authorization": f"Bearer {self.token.read_text().strip()}"}
            connection = HTTPSConnection(
                self.host, self.port, timeout=self.timeout_seconds, context=self._context()
            )
            with closing(connection):
                connection.connect()
                with _hanging_up(connection.sock, deadline):
                    connection.request("GET", PATH, headers=headers)
                    yield from _body(connection.getresponse())
                if time.monotonic() >= deadline:  # what looks like the end may be our hanging up
                    raise TimeoutError
        except ssl.SSLCertVerificationError as error:
            raise SourceError(
                f"its certificate cannot be verified: {error.verify_message} "
                "(another file of certificates is chosen by --kubelet-ca)"
            ) from error
        except (HTTPException, OSError) as error:
            if time.monotonic() >= deadline:
                raise SourceError(f"no whole answer within {self.timeout_seconds:g} s") from error
            raise SourceError(f"{type(error).__name__}: {error}") from error

    def _context(self) -> ssl.SSLContext:
        if self.ca:
            return ssl.create_default_context(cadata=self.ca.read_text())
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


@contextmanager
def _hanging_up(sock: socket.socket, deadline: float) -> Iterator[None]:
    """Close the connection at the deadline, so that whatever waits for it fails."""

    def hang_up() -> None:
        with suppress(OSError):  # it is closed already
            # Not the method of TLS's sockets, which is not made for two threads.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(deadline - time.monotonic(), hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _body(response: HTTPResponse) -> Iterator[bytes]:
    if response.status != HTTPStatus.OK:
        reason = response.read(_REASON_BYTES).decode(errors="replace").strip()
        raise SourceError(f"{response.status} {response.reason}: {reason}")
    received = 0
    while piece := response.read(_PIECE_BYTES):
        yield piece
        received += len(piece)
        if received > MAX_BYTES:
            raise SourceError(f"the answer is longer than {MAX_BYTES} bytes")
    if response.length:
        raise IncompleteRead(b"", response.length)
