"""For how long a client is waited for, and which connection is closed when room is short."""

import socket
from collections.abc import Iterator

import pytest
from gunicorn.config import Config

from mlbench_master.serving.buffered import MIN_BYTES_PER_SECOND, STALL_SECONDS, TransferRate
from mlbench_master.serving.connections import ClientConnection, WaitingConnections


def test_a_client_must_keep_the_pace() -> None:
    silent, steady, slow = TransferRate(), TransferRate(), TransferRate()
    assert silent.timeout == STALL_SECONDS == 10
    silent.note(0, waited=9)
    assert silent.timeout == 1
    for _ in range(10_000):
        steady.note(MIN_BYTES_PER_SECOND, waited=1)
    assert steady.timeout == STALL_SECONDS, "it may not stall, however much it has moved"
    for _ in range(11):
        assert slow.timeout > 0
        slow.note(1, waited=1)
    assert slow.timeout <= 0, "a byte now and then is too little"


@pytest.fixture
def connections() -> Iterator[list[ClientConnection]]:
    pairs = [socket.socketpair() for _ in range(3)]
    yield [ClientConnection(Config(), ours, ("", 0), ("", 0)) for ours, _ in pairs]
    for pair in pairs:
        for one in pair:
            one.close()


def test_the_longest_wait_is_closed_first_and_agents_last(
    connections: list[ClientConnection],
) -> None:
    agents, first, second = connections
    agents.is_agents = True
    waiting = WaitingConnections()
    for connection in connections:
        waiting.put(connection)
    order = []
    while (longest := waiting.first()) is not None:
        order.append(longest)
        waiting.take(longest)
    assert order == [first, second, agents]


def test_the_memory_of_waiting_connections_is_counted(connections: list[ClientConnection]) -> None:
    first, second, _ = connections
    waiting = WaitingConnections()
    first.buffered.arrived += b"12345"
    waiting.put(first)
    waiting.put(second)
    second.buffered.arrived += b"67"
    waiting.put(second)
    assert waiting.held == 7
    waiting.take(first)
    waiting.take(first)
    assert waiting.held == 2
