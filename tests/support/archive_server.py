"""An HTTP server with a small archive in place of Grafana's."""

import gzip
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mlbench.local.grafana_archive import GrafanaArchive


def packed(version: str = "13.2.3") -> bytes:
    """Return an archive as Grafana's: one folder that holds all."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in (("bin/grafana", b"#!/bin/sh\n"), ("conf/defaults.ini", b"")):
            member = tarfile.TarInfo(f"grafana-{version}/{name}")
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(content.getvalue(), mtime=0)  # the same bytes in each second


@dataclass
class ArchiveServer:
    """Serves an archive, as far as a test lets it."""

    url: str
    content: bytes = field(default_factory=packed)
    breaks_off: bool = False
    """Whether the connection ends in the middle of the archive."""

    @property
    def archive(self) -> GrafanaArchive:
        """The archive that an installer expects here."""
        return GrafanaArchive(self.url, hashlib.sha256(packed()).hexdigest())


@contextmanager
def serving() -> Iterator[ArchiveServer]:
    """Serve an archive on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(served.content)))
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            size = len(served.content) // 2 if served.breaks_off else len(served.content)
            self.wfile.write(served.content[:size])

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        served = ArchiveServer(f"http://127.0.0.1:{http.server_port}/grafana.tar.gz")
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        http.shutdown()
