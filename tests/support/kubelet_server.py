"""A stand-in for a kubelet, with TLS and a token, that can also fail in many ways.

It serves shortened output of a real kubelet: Kubernetes 1.20 with containerd. The tests on a
cluster read a real kubelet.
"""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.certificates import Certificates

TEXT = (Path(__file__).parents[1] / "exporter" / "data" / "cadvisor.txt").read_bytes()
NAMESPACE = "team"
RELEASE = "r1"

# Go's HTTP server splits the kubelet's output into pieces of this size.
_PIECE_BYTES = 4096


def encode_piece(piece: bytes) -> bytes:
    """Return an HTTP chunk. An empty piece marks the end of the response."""
    return b"%x\r\n%s\r\n" % (len(piece), piece)


END = encode_piece(b"")


def pieces(text: bytes) -> Iterator[bytes]:
    """Yield a text in HTTP chunks of a kubelet's size, without the end mark."""
    for start in range(0, len(text), _PIECE_BYTES):
        yield encode_piece(text[start : start + _PIECE_BYTES])


class Handler(BaseHTTPRequestHandler):
    """Refuses requests without the token, and passes others to the server's ``answer``."""

    protocol_version = "HTTP/1.1"
    server: "KubeletServer"

    def do_GET(self) -> None:
        if self.headers["Authorization"] != f"Bearer {self.server.token}":
            self.send_whole(b"Unauthorized", 401)
        elif self.path != "/metrics/cadvisor":
            self.send_whole(b"404 page not found", 404)
        else:
            self.server.answer(self)

    def send_whole(self, body: bytes, status: int = 200) -> None:
        """Send a response with a Content-Length."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_pieces(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_pieces(self, text: bytes) -> None:
        """Send a chunked response like a kubelet's, without the end mark."""
        self.begin_pieces()
        for piece in pieces(text):
            self.wfile.write(piece)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


Answer = Callable[[Handler], None]


def whole(handler: Handler, text: bytes = TEXT) -> None:
    handler.send_pieces(text)
    handler.wfile.write(END)


class KubeletServer(ThreadingHTTPServer):
    """Responds to each request with the current ``answer``."""

    daemon_threads = True
    block_on_close = False
    token = "kubelet-token"

    def __init__(self, certificates: Certificates) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self.answer: Answer = whole
        self.stopped = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not report clients that disconnected or did not trust this server."""


@contextmanager
def serving(server: KubeletServer) -> Iterator[KubeletServer]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()


def make_account(folder: Path, certificates: Certificates, token: str) -> Path:
    """Make a service account folder as Kubernetes mounts it: token, namespace and authority."""
    folder.mkdir()
    (folder / "token").write_text(token)
    (folder / "namespace").write_text(NAMESPACE)
    (folder / "ca.crt").write_bytes(certificates.ca.read_bytes())
    return folder
