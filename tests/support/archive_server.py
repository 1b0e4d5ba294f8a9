"""An HTTP server with a small archive instead of Grafana's."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mlbench.local.grafana_archive import GrafanaArchive
from tests.support.scripted import Asked, Reply, answering


def packed(version: str = "13.2.3") -> bytes:
    """Return an archive laid out like Grafana's, with a single top-level folder."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in (("bin/grafana", b"#!/bin/sh\n"), ("conf/defaults.ini", b"")):
            member = tarfile.TarInfo(f"grafana-{version}/{name}")
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(content.getvalue(), mtime=0)  # mtime=0 makes the bytes reproducible


@dataclass
class ArchiveServer:
    """Serves an archive, and can cut it off halfway."""

    url: str = ""
    content: bytes = field(default_factory=packed)
    breaks_off: bool = False
    """Whether to close the connection in the middle of the archive."""

    @property
    def archive(self) -> GrafanaArchive:
        """The download address and checksum for an installer."""
        return GrafanaArchive(self.url, hashlib.sha256(packed()).hexdigest())

    def answer(self, request: Asked) -> Reply:
        size = len(self.content)
        sent_bytes = 0 if request.method == "HEAD" else size // 2 if self.breaks_off else size
        return Reply(body=self.content[:sent_bytes], missing_bytes=size - sent_bytes)


@contextmanager
def serving() -> Iterator[ArchiveServer]:
    """Serve an archive on loopback."""
    served = ArchiveServer()
    with answering(served.answer) as http:
        served.url = f"{http.url}/grafana.tar.gz"
        yield served
