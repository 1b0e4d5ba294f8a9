"""What is too large, out of range or from elsewhere is refused: with JSON that says why."""

import json
from collections.abc import Iterator

import httpx
import pytest

from mlbench.home import Connection
from tests.contract import sockets

POD = "local-mlbench-worker-0"
DATE = "2018-08-03T09:21:29.347960Z"


def message(answer: httpx.Response, status: int) -> str:
    """Check that an answer is an error of ours; return its message."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    said = answer.json()
    assert said.keys() == {"status", "message"}
    assert said["status"] == status
    text: str = said["message"]
    return text


# --- Sizes. ---


def spaces(size: int) -> Iterator[bytes]:
    """Yield what is no JSON, and too much for the machine if it were all kept."""
    for _ in range(0, size, 1 << 16):
        yield b" " * (1 << 16)


def test_a_body_that_is_too_large(http: httpx.Client) -> None:
    most = 1 << 20
    for content in (b" " * (most + 1), spaces(most + (1 << 16))):
        answer = http.post("/api/runs/", content=content)
        assert message(answer, 413) == f"body: at most {most} bytes"


def test_a_huge_announced_body_is_refused_before_it_is_sent(connection: Connection) -> None:
    with sockets.connect(connection) as opened:
        opened.sendall(
            sockets.head(connection, "POST", "/api/metrics/", "Content-Length: 1000000000000")
        )
        answered = sockets.answer(opened, "POST")
        assert answered.status == 413
        assert json.loads(answered.read())["status"] == 413


def test_the_length_of_a_list(http: httpx.Client) -> None:
    entries = [
        {"pod_name": POD, "name": "many", "date": f"2018-08-03T09:21:29.{i:06}Z", "value": i}
        for i in range(10_001)
    ]
    said = message(http.post("/api/metrics/", json=entries), 400)
    assert said == "body: a list has 1 to 10000 entries (not 10001)"
    assert message(http.post("/api/metrics/", json=[]), 400).endswith("(not 0)")
    answer = http.post("/api/metrics/", json=entries[:-1])
    assert (answer.status_code, answer.json()) == (201, {"count": 10_000})
    assert len(http.get(f"/api/metrics/{POD}?metric_filter=many").json()["many"]) == 10_000


@pytest.mark.parametrize(
    ("field", "longest"), [("value", 64 << 10), ("metadata", (64 << 10) - 2), ("name", 200)]
)
def test_the_length_of_a_text(http: httpx.Client, field: str, longest: int) -> None:
    body = {"pod_name": POD, "name": "text", "date": DATE, "value": 1}
    good = body | {field: "a" * longest}
    assert http.post("/api/metrics/", json=good).status_code == 201
    said = message(http.post("/api/metrics/", json=body | {field: "a" * (longest + 1)}), 400)
    assert said.startswith(field)
    assert "at most" in said
    assert len(said) < 500


# --- Where a request comes from. ---


@pytest.mark.parametrize(
    "host",
    [
        *("", ":", "[", "[::1", "a:b:c", "127.0.0.1:port", "localhost, a", "é"),
        *("example.com", "127.0.0.1.example.com:80", "127.0.0.1@example.com"),
    ],
)
def test_a_foreign_or_malformed_host(connection: Connection, host: str) -> None:
    for path in ("/api/runs/", "/healthz"):
        for origin in ((), ("Origin: http://example.com",)):
            with sockets.connect(connection) as opened:
                opened.sendall(sockets.head(connection, "GET", path, *origin, host=host))
                answered = sockets.answer(opened)
                said = json.loads(answered.read())
            if path == "/api/runs/":
                assert answered.status in {400, 421}
            assert answered.status < 500
            if answered.status >= 400:
                assert said["status"] == answered.status
                assert said["message"]
