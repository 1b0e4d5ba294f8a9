"""Facts from the kernel about the process at the other end of a connection."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mlbench_sources import callers
from mlbench_sources.callers import Address, Holder


@pytest.fixture
def opened() -> Iterator[tuple[socket.socket, Address, Address]]:
    """A client socket, and the addresses of both ends of its connection."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        stack.enter_context(listener.accept()[0])
        yield client, client.getsockname(), listener.getsockname()


def test_a_socket_has_its_user_and_inode_until_it_is_closed(
    opened: tuple[socket.socket, Address, Address],
) -> None:
    client, own, other = opened
    assert callers.find_holder(own, other) == Holder(os.geteuid(), os.fstat(client.fileno()).st_ino)
    assert callers.find_holder(own, (other[0], 1)) is None
    assert callers.find_holder(other, (own[0], 1)) is None, "the listening socket must not match"
    client.close()
    assert callers.find_holder(own, other) in (None, Holder(0, 0))


def test_sock_diag_is_available_on_this_machine() -> None:
    assert callers.has_sock_diag()


def test_the_table_of_connections_is_not_read(
    opened: tuple[socket.socket, Address, Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(callers, "_field_in")
    _, own, other = opened
    assert not callers.is_of_another_user(own, other)
    # The caller is this process, whose rank is the worker's.
    assert callers.find_pid(own, other, os.getpid()) == os.getpid()
    assert callers.caller(own, other, os.getpid()) is None


@pytest.mark.parametrize("is_available", [True, False])
def test_the_caller_is_found_from_any_thread(
    opened: tuple[socket.socket, Address, Address],
    monkeypatch: pytest.MonkeyPatch,
    is_available: bool,
) -> None:
    monkeypatch.setattr(callers, "has_sock_diag", lambda: is_available)
    _, own, other = opened
    found: list[int | None] = []
    look = lambda: found.append(callers.find_pid(own, other, os.getpid()))  # noqa: E731
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [os.getpid()]


def test_the_caller_is_found_among_a_thousand_open_files(
    opened: tuple[socket.socket, Address, Address],
) -> None:
    client, own, other = opened
    with ExitStack() as stack:
        stack.enter_context(socket.fromfd(client.fileno(), client.family, client.type))
        for _ in range(1000):
            stack.enter_context(Path(os.devnull).open())
        last = os.dup(client.fileno())
        stack.callback(os.close, last)
        client.close()
        assert callers.find_pid(own, other, os.getpid()) == os.getpid()
