"""Requests to the master: kept connections, refusals, and the clock offset."""

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from mlbench_worker.agent.master_client import (
    Clock,
    MasterClient,
    MasterClientError,
    Offset,
    RequestRefusedError,
    Shipped,
)
from tests.support.scripted import Reply, Scripted, serving


@contextmanager
def linked(*replies: Reply) -> Iterator[tuple[MasterClient, Scripted]]:
    """Yield a client and the master that gives it these replies."""
    with (
        serving(*replies) as master,
        closing(MasterClient(f"{master.url}/base", "secret")) as client,
    ):
        yield client, master


def test_poll() -> None:
    now = time.time()
    answer = {"do": "wait", "next_poll_seconds": 0.5, "time": now - 100, "assignment": None}
    with linked(Reply(body=answer)) as (client, master):
        reply = client.poll("pod-0", {"state": "idle"})
    assert (reply.do, reply.next_poll_seconds, reply.assignment) == ("wait", 0.5, None)
    # The offset has an uncertainty, because the response was made before the request.
    assert client.clock.offset is not None
    assert client.clock.offset.uncertainty_seconds <= time.time() - now
    assert 100 <= client.clock.offset.seconds <= 100 + time.time() - now
    [asked] = master.asked
    assert (asked.method, asked.path) == ("POST", "/base/api/workers/pod-0/poll")
    assert asked.headers["Authorization"] == "Bearer secret"
    assert json.loads(asked.body) == {"state": "idle"}


def test_ship() -> None:
    with linked(Reply(body={"offset": 12, "next_ship_seconds": 1.5})) as (client, master):
        assert client.ship("/stream?attempt=1", 7, b"bytes") == Shipped(12, 1.5)
    [asked] = master.asked
    assert (asked.method, asked.path) == ("PUT", "/base/stream?attempt=1&offset=7")


def test_a_closed_connection_is_opened_again() -> None:
    taken = Reply(body={"offset": 1, "next_ship_seconds": 1}, hangs_up=True)
    with linked(taken) as (client, master):
        assert [client.ship("/s?a=1", 0, b"x") for _ in range(3)] == [Shipped(1, 1.0)] * 3
    assert len(master.asked) == 3


@pytest.mark.parametrize(
    ("error", "statuses"),
    [(RequestRefusedError, (403, 404, 409)), (MasterClientError, (401, 413, 500, 503))],
)
def test_permanent_refusals_differ_from_temporary_errors(
    error: type[Exception], statuses: tuple[int, ...]
) -> None:
    with linked(*map(Reply, statuses)) as (client, _):
        for status in statuses:
            with pytest.raises(error, match=str(status)):
                client.ship("/s?a=1", 0, b"x")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        *((answer, "malformed") for answer in (b"no json", b"[]", b"{}", b'{"offset": null}')),
        (b" " * (5 << 20), "too long"),
    ],
)
def test_a_malformed_or_oversized_response_is_an_error(answer: bytes, problem: str) -> None:
    with linked(Reply(body=answer)) as (client, _):
        with pytest.raises(MasterClientError, match=problem):
            client.ship("/s?a=1", 0, b"x")
        with pytest.raises(MasterClientError, match=problem):
            client.poll("pod-0", {})


def test_the_offset_comes_from_the_shortest_recent_round_trip() -> None:
    """The true offset, 3 s, is within the uncertainty at any time of the master's reading."""
    clock = Clock()
    assert clock.offset is None
    for seconds, read_after in ((0.5, 0.0), (0.25, 0.25), (0.375, 0.125)):
        clock.note(100.0, 100.0 + seconds, 100.0 + read_after - 3.0)
    assert clock.offset == Offset(2.875, 0.125)
    for _ in range(8):
        clock.note(100.0, 101.0, 98.0)
    assert clock.offset == Offset(2.5, 0.5)
