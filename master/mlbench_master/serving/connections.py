"""Connections that wait in the loop, and the choice of the one to close if memory is short."""

import socket
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, cast

from gunicorn import http
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn

from mlbench_master.serving.buffered import BufferedSocket
from mlbench_master.serving.bulkheads import Bulkhead, Head, find_head


class ClientConnection(TConn):
    """A client's connection: gunicorn's, with the state that the loop needs."""

    def __init__(self, cfg: Config, opened: socket.socket, *client_and_server: Any) -> None:
        super().__init__(cfg, opened, *client_and_server)
        self.buffered = BufferedSocket(opened)
        # It implements all methods of a socket that gunicorn calls.
        self.sock = cast("socket.socket", self.buffered)
        self.data_ready = True
        self.head: Head | None = None
        """Head of the current request; None until it has arrived."""
        self.is_agents = False
        """Whether an agent has authenticated on it."""
        self.stays = False
        """Whether another request may follow."""
        self.began = time.monotonic()
        """Monotonic time at which its wait started."""
        self.deadline = 0.0
        """Monotonic time at which its wait ends."""

    def init(self) -> None:
        """Prepare to parse requests, like gunicorn's own method without TLS."""
        if not self.initialized:
            self.parser = http.get_parser(self.cfg, self.sock, self.client)
            self.initialized = True

    def receive_next(self, bulkhead: Bulkhead) -> bool:
        """Wait briefly for a request; return whether a complete one of this bulkhead has come."""
        if not self.buffered.flush():
            return False
        self.finish()
        self.buffered.receive_soon()
        arrived = self.buffered.arrived
        head = find_head(arrived)
        return head is not None and head.bulkhead is bulkhead and len(arrived) >= head.whole

    def finish(self) -> None:
        """Give back data of the next request, and note whether the client is an agent."""
        # Anybody can request an agent's route, but only an agent gets status 200.
        agents = self.head is not None and self.head.bulkhead in {Bulkhead.POLLS, Bulkhead.STREAMS}
        self.is_agents = self.is_agents or (agents and self.buffered.status == HTTPStatus.OK)
        if isinstance(self.parser, RequestParser):
            self.buffered.unread(self.parser.unreader.take_buffered())
        self.head = None
        self.buffered.begin()


class WaitingConnections:
    """Connections without a thread, in the order in which their waits started."""

    def __init__(self) -> None:
        self._agents: dict[ClientConnection, int] = {}
        self._others: dict[ClientConnection, int] = {}
        self.held = 0
        """Bytes in memory for all these connections."""

    def __iter__(self) -> Iterator[ClientConnection]:
        yield from list(self._others)
        yield from list(self._agents)

    def __contains__(self, conn: ClientConnection) -> bool:
        return conn in self._of(conn)

    def put(self, conn: ClientConnection) -> None:
        """Add a connection, or update its number of bytes in memory."""
        held = conn.buffered.held
        self.held += held - self._of(conn).get(conn, 0)
        self._of(conn)[conn] = held

    def take(self, conn: ClientConnection) -> None:
        """Remove a connection, if present."""
        self.held -= self._of(conn).pop(conn, 0)

    def first(self) -> ClientConnection | None:
        """Return the connection to close first: the longest waiting one, agents last."""
        return next(iter(self._others or self._agents), None)

    def _of(self, conn: ClientConnection) -> dict[ClientConnection, int]:
        return self._agents if conn.is_agents else self._others
