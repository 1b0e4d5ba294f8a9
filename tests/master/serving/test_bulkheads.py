"""Where a request's head ends, its bulkhead, and how much of it to wait for."""

import pytest

from mlbench_master.serving.bulkheads import Bulkhead, Head, find_head


def request(first: str, *lines: str) -> bytes:
    return "\r\n".join([first, "Host: here", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("first", "bulkhead"),
    [
        ("POST /api/workers/w-0/poll HTTP/1.1", Bulkhead.POLLS),
        ("POST /api/workers/w-0/poll/ HTTP/1.1", Bulkhead.POLLS),
        ("POST /api/join/ HTTP/1.1", Bulkhead.POLLS),
        ("POST /heartbeat HTTP/1.1", Bulkhead.POLLS),
        ("GET /api/workers/w-0/poll HTTP/1.1", Bulkhead.OTHERS),
        ("POST /api/workers/w-0/poll/more HTTP/1.1", Bulkhead.OTHERS),
        ("PUT /api/runs/7/ranks/0/stdout?attempt=1&offset=0 HTTP/1.1", Bulkhead.STREAMS),
        ("GET /healthz HTTP/1.0", Bulkhead.PROBES),
        ("HEAD /readyz HTTP/1.1", Bulkhead.PROBES),
        ("GET /metrics?name=a HTTP/1.1", Bulkhead.PROBES),
        ("GET /api/metrics/ HTTP/1.1", Bulkhead.OTHERS),
        ("GET /static/1/style.css HTTP/1.1", Bulkhead.OTHERS),
        ("hello", Bulkhead.OTHERS),
    ],
)
def test_the_first_line_says_the_bulkhead(first: str, bulkhead: Bulkhead) -> None:
    whole = request(first)
    assert find_head(whole + b"more") == Head(bulkhead, len(whole))


def test_a_head_that_is_not_whole_is_none() -> None:
    whole = request("GET /healthz HTTP/1.1")
    assert [find_head(whole[:end]) for end in range(len(whole))] == [None] * len(whole)


@pytest.mark.parametrize("name", ["Content-Length", "content-length", "CONTENT-LENGTH"])
def test_a_body_is_waited_for(name: str) -> None:
    head = request("POST /api/runs HTTP/1.1", f"{name}:  12 ")
    assert find_head(head) == Head(Bulkhead.OTHERS, len(head) + 12)


@pytest.mark.parametrize(
    "lines",
    [
        ["Transfer-Encoding: chunked"],
        ["Content-Length: 5", "transfer-encoding: chunked"],
        ["Content-Length: 5", "Expect: 100-continue"],
        ["Content-Length: 5", "Content-Length: 6"],
        [f"Content-Length: {(4 << 20) + 1}"],
    ],
)
def test_a_body_that_cannot_be_waited_for_is_read_in_a_lane_of_its_own(lines: list[str]) -> None:
    assert find_head(request("PUT /api/runs/7/ranks/0/stdout HTTP/1.1", *lines)) == Head(
        Bulkhead.SLOW, 0
    )


@pytest.mark.parametrize("never", [b"GET / HTTP/1.1\nHost: here\n\n", b"x" * (64 << 10)])
def test_malformed_heads_are_left_to_gunicorn(never: bytes) -> None:
    assert find_head(never) == Head(Bulkhead.SLOW, 0)
