"""Requests over a real socket: forms, chunked bodies, and oversized or malformed requests."""

import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from mlbench.local.home import StackConnection
from tests.contract import sockets

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
POD = "local-mlbench-worker-0"
DATE = "2018-08-03T09:21:29.347960Z"


def values(http: httpx.Client, name: str) -> list[Any]:
    """Return the values of a series of the pod."""
    series = http.get(f"/api/metrics/{POD}", params={"metric_filter": name}).json()
    return [entry["value"] for entry in series.get(name, [])]


def sample(name: str, value: object) -> dict[str, object]:
    return {"pod_name": POD, "name": name, "date": DATE, "value": value}


# --- Forms. ---


@pytest.mark.parametrize(
    "text", ["ünï cödé ☃ 🎉", "a+b c&d=e%20;#?/\\", "line\r\nline\ttab", '{"a": 1}', "", " "]
)
def test_any_text_in_a_form(http: httpx.Client, text: str) -> None:
    name = f"form {text}"
    answer = http.post("/api/metrics", data=sample(name, text))
    assert answer.status_code == 201, answer.text
    assert answer.json()["value"] == text
    assert values(http, name) == [text]


@pytest.mark.parametrize("charset", ["; charset=UTF-8", ""])
def test_spellings_of_a_form(http: httpx.Client, charset: str) -> None:
    rest = urlencode({"pod_name": POD, "name": "spelled", "date": DATE})
    headers = {"Content-Type": f"Application/X-WWW-Form-URLencoded{charset}"}
    for spelled in ("caf%C3%A9", "caf%c3%a9", "café", "caf%C3%A9&cumulative=false", "%63af%C3%A9"):
        body = f"{rest}&value={spelled}".encode()
        answer = http.post("/api/metrics", content=body, headers=headers)
        assert answer.status_code == 201, answer.text
        assert answer.json()["value"] == "café"


def test_booleans_in_a_form(http: httpx.Client) -> None:
    spelled = {True: ("true", "True", "TRUE", "1", "on", "yes")}
    spelled |= {False: ("false", "False", "FALSE", "0", "off", "no")}
    for truth, texts in spelled.items():
        for text in texts:
            answer = http.post("/api/metrics", data={**sample("truth", 1), "cumulative": text})
            assert answer.json()["cumulative"] is truth


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"name=a&name=b", "body: a field is given twice"),
        (b'{"name": "a"}', "body: JSON needs the header Content-Type: application/json"),
        (b"name=a&value=%FF", "body: must be a form in UTF-8"),
        (b"name=a&value=\xff", "body: must be a form in UTF-8"),
        (b"", "name: required field is missing"),
        (b"&&&", "name: required field is missing"),
        (b"name=", "name: must have at least 1 characters"),
        (b"name=a&date=", "date: "),
        (b"name=a&run_id=", "run_id: "),
        (b"name=a&cumulative=", "cumulative: "),
        (b"name=a&cumulative=perhaps", "cumulative: "),
        (b"name=a&nothing=1", "nothing: unknown field"),
    ],
)
def test_an_invalid_form_is_refused(http: httpx.Client, body: bytes, message: str) -> None:
    answer = http.post("/api/metrics", content=body, headers=FORM)
    assert answer.status_code == 400
    assert message in answer.json()["message"]


# --- Encodings of bodies. ---


def pieces(body: bytes) -> Iterator[bytes]:
    for i in range(0, len(body), 7):
        yield body[i : i + 7]


def test_a_body_in_chunks(http: httpx.Client) -> None:
    body = json.dumps(sample("chunks", 3)).encode()
    answer = http.post("/api/metrics", content=pieces(body))
    assert answer.request.headers["Transfer-Encoding"] == "chunked"
    assert answer.status_code == 201, answer.text
    form = urlencode(sample("chunks", 3)).encode()
    assert http.post("/api/metrics", content=pieces(form), headers=FORM).status_code == 201
    # A sample posted twice is stored once.
    assert values(http, "chunks") == ["3"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "GZIP"])
def test_a_compressed_body(http: httpx.Client, encoding: str) -> None:
    body = gzip.compress(json.dumps(sample("gzip", 5)).encode())
    for path in ("/api/metrics/", "/api/runs/"):
        answer = http.post(path, content=body, headers={"Content-Encoding": encoding})
        assert answer.status_code == 415
        assert answer.json()["message"].startswith("Content-Encoding: ")
        assert answer.headers["Accept-Encoding"] == "identity"
    assert values(http, "gzip") == []
    headers = {"Content-Encoding": "identity"}
    answer = http.post("/api/metrics", json=sample("identity", 6), headers=headers)
    assert answer.status_code == 201


# --- Size limits. ---


def test_a_huge_announced_body_is_refused_before_it_is_sent(connection: StackConnection) -> None:
    line = "Content-Length: 1000000000000"
    with sockets.connect(connection) as opened:
        opened.sendall(sockets.head(connection, "POST", "/api/metrics/", line))
        answered = sockets.answer(opened, "POST")
        assert answered.status == 413
        assert json.loads(answered.read())["status"] == 413


def test_a_list_has_at_most_10000_entries(http: httpx.Client) -> None:
    moments = [f"2018-08-03T09:21:29.{i:06}Z" for i in range(10_001)]
    entries = [{**sample("many", 1), "date": date} for date in moments]
    for length, wrong in ((10_001, entries), (0, [])):
        answer = http.post("/api/metrics/", json=wrong)
        message = f"body: a list must have 1 to 10000 entries (got {length})"
        assert (answer.status_code, answer.json()["message"]) == (400, message)
    answer = http.post("/api/metrics/", json=entries[:-1])
    assert (answer.status_code, answer.json()) == (201, {"count": 10_000})
    assert len(values(http, "many")) == 10_000


# --- Other methods. ---


def test_a_connection_can_be_reused_after_a_head_request(connection: StackConnection) -> None:
    """A body in the response to HEAD would be read as the next response."""
    with sockets.connect(connection) as opened:
        for method, status in [("HEAD", 200), ("GET", 200), ("OPTIONS", 200), ("GET", 200)]:
            opened.sendall(sockets.head(connection, method, "/api/pods/"))
            answered = sockets.answer(opened, method)
            assert answered.status == status
            answered.read()
