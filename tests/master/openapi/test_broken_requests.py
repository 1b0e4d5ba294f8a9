"""Requests that are no HTTP, which gunicorn answers by itself: errors like all others."""

import json
import socket
from http.client import HTTPResponse

import httpx

from mlbench.contract.records import Error

_BROKEN = {
    b"hello\r\n\r\n": 400,
    b"GET /healthz HTTP/9.9\r\n\r\n": 400,
    b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n": 400,
    b"GET /healthz HTTP/1.1\r\nBad Name: x\r\n\r\n": 400,
    b"POST /api/runs/ HTTP/1.1\r\nContent-Length: many\r\n\r\n": 400,
    b"POST /api/runs/ HTTP/1.1\r\nTransfer-Encoding: unheard-of\r\n\r\n": 501,
    b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n": 414,
    b"GET / HTTP/1.1\r\n" + b"X-A: 1\r\n" * 200 + b"\r\n": 431,
}


def test_malformed_http_is_answered_in_json(server: httpx.URL) -> None:
    for request, status in _BROKEN.items():
        answer, text = ask(server, request)
        assert answer.status == status, text
        assert answer.headers["Content-Type"] == "application/json"
        error = Error.from_fields(json.loads(text))
        assert error.status == status
        assert error.message


def ask(server: httpx.URL, request: bytes) -> tuple[HTTPResponse, bytes]:
    """Return the answer to a request of just these bytes."""
    with socket.create_connection((server.host, server.port or 80), timeout=10) as opened:
        opened.sendall(request)
        answer = HTTPResponse(opened)
        answer.begin()
        return answer, answer.read()
