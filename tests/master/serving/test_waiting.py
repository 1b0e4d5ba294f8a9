"""Which connection yields."""

import socket
from collections.abc import Iterator

import pytest
from gunicorn.config import Config

from master.serving.connections import Connection, Waiting


@pytest.fixture
def connections() -> Iterator[list[Connection]]:
    pairs = [socket.socketpair() for _ in range(3)]
    yield [Connection(Config(), ours, ("", 0), ("", 0)) for ours, _ in pairs]
    for pair in pairs:
        for one in pair:
            one.close()


def test_the_one_that_has_waited_longest_yields_and_agents_last(
    connections: list[Connection],
) -> None:
    agents, first, second = connections
    agents.is_agents = True
    waiting = Waiting()
    for one in connections:
        waiting.put(one)
    order = []
    while (found := waiting.first()) is not None:
        order.append(found)
        waiting.take(found)
    assert order == [first, second, agents]


def test_what_they_keep_in_memory_is_known(connections: list[Connection]) -> None:
    one, other, _ = connections
    waiting = Waiting()
    one.wire.arrived += b"12345"
    waiting.put(one)
    waiting.put(other)
    other.wire.arrived += b"67"
    waiting.put(other)
    assert waiting.held == 7
    waiting.take(one)
    waiting.take(one)
    assert waiting.held == 2
