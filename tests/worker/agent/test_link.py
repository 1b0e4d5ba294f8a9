"""Calls to the master: kept connections, refusals, and the clocks' offset."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from worker.agent.link import Backoff, Clock, Link, LinkError, Offset, RefusedError, offset_by


class Handler(BaseHTTPRequestHandler):
    """Answers as the test says, and remembers what it was asked."""

    protocol_version = "HTTP/1.1"
    status = 200
    answer = b"{}"
    drop_after_answer = False
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
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    yield handler
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def link(server: type[Handler]) -> Iterator[Link]:
    link = Link(f"{server.url}/base", "secret")  # type: ignore[attr-defined]
    yield link
    link.close()


def test_poll(server: type[Handler], link: Link) -> None:
    now = time.time()
    said = {"do": "wait", "next_poll_seconds": 0.5, "time": now - 100, "assignment": None}
    server.answer = json.dumps(said).encode()
    reply = link.poll("pod-0", {"state": "idle"})
    assert (reply.do, reply.next_poll_seconds, reply.assignment) == ("wait", 0.5, None)
    # The answer was written before it was asked for, and so says a little too much.
    assert reply.offset.uncertainty_seconds <= time.time() - now
    assert 100 <= reply.offset.seconds <= 100 + time.time() - now
    [(method, path, authorization, body)] = server.asked
    assert (method, path) == ("POST", "/base/api/workers/pod-0/poll")
    assert authorization == "Bearer secret"
    assert json.loads(body) == {"state": "idle"}


def test_ship(server: type[Handler], link: Link) -> None:
    server.answer = b'{"offset": 12}'
    assert link.ship("/stream?attempt=1", 7, b"bytes") == 12
    assert server.asked[0][:2] == ("PUT", "/base/stream?attempt=1&offset=7")


def test_a_connection_that_was_closed_meanwhile_is_opened_again(
    server: type[Handler], link: Link
) -> None:
    server.answer = b'{"offset": 1}'
    server.drop_after_answer = True
    assert [link.ship("/s?a=1", 0, b"x") for _ in range(3)] == [1, 1, 1]
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


def test_backoff_doubles_with_jitter_up_to_a_limit() -> None:
    backoff = Backoff(first=1.0, longest=8.0)
    for longest in (1, 2, 4, 8, 8, 8):
        assert longest / 2 <= backoff.seconds() <= longest
    backoff.reset()
    assert backoff.seconds() <= 1


def test_the_true_offset_is_within_the_uncertainty() -> None:
    """Whenever in the round trip the master reads its clock, here 3 s behind."""
    for read_after in (0.0, 0.1, 0.4):
        found = offset_by(100.0, 100.4, 100.0 + read_after - 3.0)
        assert abs(found.seconds - 3.0) <= found.uncertainty_seconds + 1e-9


def test_the_shortest_of_the_last_round_trips_counts() -> None:
    clock = Clock()
    assert clock.offset is None
    best = Offset(1.0, 0.001)
    for offset in (Offset(1.5, 0.5), best, Offset(1.2, 0.2)):
        clock.note(offset)
    assert clock.offset == best
    for number in range(8):
        clock.note(Offset(2.0 + number, 0.3))
    assert clock.offset == Offset(2.0, 0.3)
