"""Calls to the master: kept connections, refusals, and the clocks' offset."""

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from mlbench_worker.agent.link import Clock, Link, LinkError, Offset, RefusedError, Shipped
from tests.worker.agent.one_run_master import serving


class Handler(BaseHTTPRequestHandler):
    """Answers as the test says, and remembers what it was asked."""

    protocol_version = "HTTP/1.1"
    status = 200
    answer = b"{}"
    drop_after_answer = False
    url: str
    asked: list[tuple[str, str, str | None, bytes]]

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.command, self.path, self.headers["Authorization"], body))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)
        # Without saying so, as a server does whose patience with an idle connection has ended.
        self.close_connection = self.drop_after_answer

    do_POST = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[type[Handler]]:
    handler = type("OneTest", (Handler,), {"asked": []})
    httpd = HTTPServer(("127.0.0.1", 0), handler)
    handler.url = f"http://127.0.0.1:{httpd.server_port}"  # type: ignore[attr-defined]
    with serving(httpd):
        yield handler


@pytest.fixture
def link(server: type[Handler]) -> Iterator[Link]:
    link = Link(f"{server.url}/base", "secret")
    yield link
    link.close()


def test_poll(server: type[Handler], link: Link) -> None:
    now = time.time()
    said = {"do": "wait", "next_poll_seconds": 0.5, "time": now - 100, "assignment": None}
    server.answer = json.dumps(said).encode()
    reply = link.poll("pod-0", {"state": "idle"})
    assert (reply.do, reply.next_poll_seconds, reply.assignment) == ("wait", 0.5, None)
    # The answer was written before it was asked for, and so says a little too much.
    assert link.clock.offset is not None
    assert link.clock.offset.uncertainty_seconds <= time.time() - now
    assert 100 <= link.clock.offset.seconds <= 100 + time.time() - now
    [(method, path, authorization, body)] = server.asked
    assert (method, path) == ("POST", "/base/api/workers/pod-0/poll")
    assert authorization == "Bearer secret"
    assert json.loads(body) == {"state": "idle"}


def test_ship(server: type[Handler], link: Link) -> None:
    server.answer = b'{"offset": 12, "next_ship_seconds": 1.5}'
    assert link.ship("/stream?attempt=1", 7, b"bytes") == Shipped(12, 1.5)
    assert server.asked[0][:2] == ("PUT", "/base/stream?attempt=1&offset=7")


def test_a_connection_that_was_closed_meanwhile_is_opened_again(
    server: type[Handler], link: Link
) -> None:
    server.answer = b'{"offset": 1, "next_ship_seconds": 1}'
    server.drop_after_answer = True
    assert [link.ship("/s?a=1", 0, b"x") for _ in range(3)] == [Shipped(1, 1.0)] * 3
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("error", "statuses"), [(RefusedError, (403, 404, 409)), (LinkError, (401, 413, 500, 503))]
)
def test_what_is_refused_for_good_and_what_to_try_again(
    server: type[Handler], link: Link, error: type[Exception], statuses: tuple[int, ...]
) -> None:
    for server.status in statuses:
        with pytest.raises(error, match=str(server.status)):
            link.ship("/s?a=1", 0, b"x")


@pytest.mark.parametrize("answer", [b"no json", b"[]", b"{}", b'{"offset": null}'])
def test_an_answer_that_makes_no_sense(server: type[Handler], link: Link, answer: bytes) -> None:
    server.answer = answer
    with pytest.raises(LinkError):
        link.ship("/s?a=1", 0, b"x")
    with pytest.raises(LinkError):
        link.poll("pod-0", {})


def test_the_shortest_of_the_last_round_trips_counts() -> None:
    """The true offset, 3 s, is within its uncertainty, whenever the master reads its clock."""
    clock = Clock()
    assert clock.offset is None
    for seconds, read_after in ((0.5, 0.0), (0.25, 0.25), (0.375, 0.125)):
        clock.note(100.0, 100.0 + seconds, 100.0 + read_after - 3.0)
    assert clock.offset == Offset(2.875, 0.125)
    for _ in range(8):
        clock.note(100.0, 101.0, 98.0)
    assert clock.offset == Offset(2.5, 0.5)
