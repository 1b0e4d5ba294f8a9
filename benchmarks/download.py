"""Downloading an answer, timed."""

import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass

_PIECE_BYTES = 1 << 20
_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True)
class Download:
    """An answer, and how many seconds after the request its body began and ended."""

    body: bytes
    first_byte_seconds: float
    seconds: float


@dataclass(frozen=True)
class Source:
    """A server on this machine, and what its requests carry."""

    port: int
    headers: Mapping[str, str]

    def get(self, path: str) -> Download:
        """Return an answer.

        Raises:
            AssertionError: its status is not 200.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_SECONDS)
        connection.connect()
        begin = time.perf_counter()
        connection.request("GET", path, headers=dict(self.headers))
        response = connection.getresponse()
        pieces = [response.read1(_PIECE_BYTES)]
        first_byte_seconds = time.perf_counter() - begin
        while pieces[-1]:
            pieces.append(response.read1(_PIECE_BYTES))
        seconds = time.perf_counter() - begin
        connection.close()
        body = b"".join(pieces)
        assert response.status == 200, (path, response.status, body)
        return Download(body, first_byte_seconds, seconds)
