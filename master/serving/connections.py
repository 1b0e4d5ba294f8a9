"""Connections that wait in the loop: which there are, and which yields where room is short."""

import socket
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from gunicorn import http
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn

from master.serving.lanes import Lane
from master.serving.wire import Wire

if TYPE_CHECKING:
    from master.serving.heads import Head

Address = tuple[str, int]


class Connection(TConn):
    """A client's connection, as gunicorn's threads take it, and what the loop knows of it."""

    def __init__(self, cfg: Config, opened: socket.socket, client: Address, server: Address):
        super().__init__(cfg, opened, client, server)
        self.wire = Wire(opened)
        # All that gunicorn does with it, a wire can.
        self.sock = cast("socket.socket", self.wire)
        self.data_ready = True
        self.head: Head | None = None
        """Of the request that is there, once it is known."""
        self.is_agents = False
        """Whether an agent has shown its token on it."""
        self.stays = False
        """Whether another request may follow."""
        self.began = time.monotonic()
        """When it began to wait."""
        self.deadline = 0.0
        """When it has waited for long enough, by the monotonic clock."""

    def init(self) -> None:
        """Begin to parse a request, which is all that gunicorn's own does without TLS."""
        self.parser = http.get_parser(self.cfg, self.sock, self.client)
        self.initialized = True

    def finish(self) -> None:
        """Give back what was read of the next request, and note whose connection it is."""
        # The address alone says nothing of who asks: the answer does.
        agents = self.head is not None and self.head.lane in {Lane.POLLS, Lane.STREAMS}
        self.is_agents = self.is_agents or (agents and self.wire.status == HTTPStatus.OK)
        if isinstance(self.parser, RequestParser):
            self.wire.unread(self.parser.unreader.take_buffered())
        self.parser = self.head = None
        self.wire.begin()


class Waiting:
    """The connections that no thread has, in the order in which they began to wait."""

    def __init__(self) -> None:
        self._agents: dict[Connection, int] = {}
        self._others: dict[Connection, int] = {}
        self.held = 0
        """Bytes that all of them keep in memory."""

    def __iter__(self) -> Iterator[Connection]:
        yield from list(self._others)
        yield from list(self._agents)

    def __contains__(self, conn: Connection) -> bool:
        return conn in self._of(conn)

    def put(self, conn: Connection) -> None:
        """Add a connection, or see how much it keeps in memory now."""
        held = conn.wire.held
        self.held += held - self._of(conn).get(conn, 0)
        self._of(conn)[conn] = held

    def take(self, conn: Connection) -> None:
        """Remove a connection, if it is there."""
        self.held -= self._of(conn).pop(conn, 0)

    def first(self) -> Connection | None:
        """Return the one that yields: it has waited longest, and is no agent's if any is not."""
        return next(iter(self._others or self._agents), None)

    def _of(self, conn: Connection) -> dict[Connection, int]:
        return self._agents if conn.is_agents else self._others
