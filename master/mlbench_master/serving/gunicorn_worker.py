"""Gunicorn's worker process: an event loop that absorbs slow clients, in front of threads.

A thread gets a request once it is complete, and is free once the loop has its response. Each kind
of request has its own threads (``bulkheads.py``). Clients must keep a minimum rate
(``connection.py``). If connections or memory run short, the longest waiting connection is closed.

Gunicorn's part is its arbiter, its parser of requests and its writer of responses, by the same
calls as in its own workers: ``Worker``, ``RequestParser``, ``wsgi.create`` and ``Response``.
"""

import errno
import os
import resource
import selectors
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from queue import SimpleQueue
from threading import Thread
from typing import Any, NoReturn, cast

from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.workers.base import Worker

from mlbench_master.serving.bulkheads import Bulkhead
from mlbench_master.serving.connection import (
    ENVIRON_KEY,
    MIN_BYTES_PER_SECOND,
    STALL_SECONDS,
    ClientGoneError,
    Connection,
    WaitingConnections,
)

# Time for the client to read its response before the connection is closed.
_LINGER_SECONDS = 2.0
# Time for the head of a request, from its first byte on.
_HEAD_SECONDS = 5.0
# Limit on the memory of all requests and responses that wait in the loop.
_MAX_HELD_BYTES = 128 << 20
_SWEEP_SECONDS = 0.5
# The system has no descriptors or memory left.
_SHORT_OF = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_AGENTS = {Bulkhead.POLLS, Bulkhead.STREAMS}


class _CachedConfig:
    """Gunicorn's configuration, whose own lookups take a third of the time of parsing a request."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def __getattr__(self, name: str) -> Any:
        value = vars(self)[name] = getattr(self._config, name)
        return value


class BulkheadWorker(Worker):
    """One process that serves the API."""

    def init_process(self) -> None:
        """Prepare the threads, and raise the limit of file descriptors as needed."""
        self._config = cast("Config", _CachedConfig(self.cfg))
        self._selector = selectors.DefaultSelector()
        self._waiting = WaitingConnections()
        self._queues: dict[Bulkhead, SimpleQueue[Connection]] = {b: SimpleQueue() for b in Bulkhead}
        self._served: SimpleQueue[Connection] = SimpleQueue()
        self._swept_at = 0.0
        self._open = 0
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        if limit == resource.RLIM_INFINITY:
            limit = sys.maxsize
        # Leave file descriptors for databases, Prometheus and other uses in threads.
        self._most_open = max(1, min(self.cfg.worker_connections, limit - 256))
        for bulkhead in Bulkhead:
            for number in range(bulkhead.threads):
                name = f"{bulkhead.name.lower()}_{number}"
                Thread(target=self._serve, args=[bulkhead], name=name, daemon=True).start()
        super().init_process()

    def run(self) -> None:
        """Serve until the process ends, then finish the active requests."""
        # Gunicorn writes to this pipe at signals, and threads once they have a response.
        self._selector.register(self.PIPE[0], selectors.EVENT_READ, self._finish_served)
        for listener in self.sockets:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, self._accept)
        while self.alive:
            self._turn()
        for listener in self.sockets:
            self._selector.unregister(listener)
            listener.close()
        end = time.monotonic() + self.cfg.graceful_timeout
        while self._open and time.monotonic() < end:
            # A client may already be sending its next request.
            for conn in self._waiting:
                conn.deadline = min(conn.deadline, conn.began + _LINGER_SECONDS)
            self._turn()

    def _turn(self) -> None:
        for key, _ in self._selector.select(_SWEEP_SECONDS):
            # An earlier event of this turn may have dropped the connection.
            if not isinstance(key.fileobj, Connection) or key.fileobj in self._waiting:
                key.data(key.fileobj)
            while self._waiting.held > _MAX_HELD_BYTES:
                self._make_room()
        now = time.monotonic()
        if now - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = now
        self.notify()
        for conn in self._waiting:
            if now < conn.deadline:
                continue
            if conn.arrived and not (conn.is_sending or conn.is_over):
                self._refuse(conn, HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
            else:
                self._drop(conn)

    # --- A connection arrives. ---

    def _accept(self, listener: socket.socket) -> None:
        """Accept up to 64 connections; the others wait until other events are handled."""
        for _ in range(64):
            try:
                opened, client = listener.accept()
            except OSError as error:
                if error.errno in _SHORT_OF and not self._make_room():
                    time.sleep(0.01)  # The listener stays readable.
                return
            if self._open >= self._most_open and not self._make_room():
                opened.close()
                continue
            self._open += 1
            conn = Connection(opened, client, listener.getsockname())
            self._watch(conn, selectors.EVENT_READ, self._receive, self._config.keepalive)

    def _make_room(self) -> bool:
        """Close the longest waiting connection; return whether there was one."""
        first = self._waiting.first()
        if first is not None:
            self._drop(first)
        return first is not None

    # --- A request arrives. ---

    def _receive(self, conn: Connection) -> None:
        is_first = not conn.arrived
        if conn.receive():
            if is_first:
                conn.began = time.monotonic()
                conn.deadline = conn.began + _HEAD_SECONDS
            self._waiting.put(conn)
            self._go_on(conn)
        elif conn.is_over:
            self._drop(conn)

    def _go_on(self, conn: Connection) -> None:
        """Give a request to a thread if it is complete; otherwise set its deadline."""
        now = time.monotonic()
        if conn.find_request(self._config):
            queue = self._queues[conn.bulkhead]
            if queue.qsize() >= conn.bulkhead.most_waiting:
                message = "the master is busy. Try again later."
                self._refuse(conn, HTTPStatus.SERVICE_UNAVAILABLE, message)
                return
            self._unwatch(conn)
            conn.began = now
            queue.put(conn)
        elif conn.is_sending:  # The request is malformed, and was refused.
            self._unwatch(conn)
            self._send_rest(conn)
        elif conn.request_bytes:
            total = conn.began + STALL_SECONDS + len(conn.arrived) / MIN_BYTES_PER_SECOND
            conn.deadline = min(now + STALL_SECONDS, total)

    # --- A request is handled, in a thread. ---

    def _serve(self, bulkhead: Bulkhead) -> NoReturn:
        """Handle requests, each with the next ones of its user that have come meanwhile."""
        while True:
            conn = self._queues[bulkhead].get()
            conn.waited = time.monotonic() - conn.began
            # An agent that has given up waiting gets no response.
            conn.stays = not (bulkhead is Bulkhead.POLLS and conn.waited > 1.0 and conn.is_gone)
            is_next = conn.stays
            while is_next:
                self._respond(conn)
                is_next = (
                    conn.stays
                    and bulkhead is Bulkhead.OTHERS
                    and self.alive
                    and not conn.is_sending
                    # No other request needs the thread.
                    and self._queues[bulkhead].empty()
                    and conn.receive_soon()
                    and conn.find_request(self._config)
                    and conn.bulkhead is bulkhead
                )
            self._served.put(conn)
            with suppress(BlockingIOError):  # The loop has not read earlier bytes yet.
                os.write(self.PIPE[1], b".")

    def _respond(self, conn: Connection) -> None:
        """Handle a request as gunicorn's own workers do."""
        request, response, began = conn.request, None, datetime.now()
        assert request
        conn.stays = False
        # It implements all methods of a socket that gunicorn calls.
        sock = cast("socket.socket", conn)
        try:
            response, environ = wsgi.create(request, sock, conn.client, conn.server, self._config)
            environ["wsgi.multithread"] = True
            environ[ENVIRON_KEY] = conn
            if conn.bulkhead is Bulkhead.SLOW or not self.alive:
                response.force_close()
            body = self.wsgi(environ, response.start_response)  # type: ignore[arg-type]
            try:
                for piece in body:
                    response.write(piece)
                response.close()
            finally:
                if hasattr(body, "close"):
                    body.close()
            if self._config.accesslog:
                self.log.access(response, request, environ, datetime.now() - began)
            # Anybody can request an agent's route, but only an agent gets status 200.
            is_agents = conn.bulkhead in _AGENTS and response.status_code == HTTPStatus.OK
            conn.is_agents = conn.is_agents or is_agents
            conn.stays = not response.should_close()
        except ClientGoneError:
            pass
        except BaseException:  # The thread must survive every error.
            self.log.exception("%s %s failed", request.method, request.path)
            if response is None or not response.headers_sent:
                conn.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "the request failed")
        conn.end_request()
        conn.flush()

    # --- A response leaves. ---

    def _finish_served(self, pipe: int) -> None:
        """Send the rest of the responses of threads, then wait for the next requests or close."""
        os.read(pipe, 4096)
        while not self._served.empty():
            conn = self._served.get()
            conn.stays = conn.stays and self.alive
            self._send_rest(conn)

    def _send_rest(self, conn: Connection) -> None:
        if not conn.flush():
            self._watch(conn, selectors.EVENT_WRITE, self._flush, conn.writing.timeout)
        elif conn.is_over and not conn.arrived:
            self._drop(conn)
        elif conn.stays:
            seconds = _HEAD_SECONDS if conn.arrived else self._config.keepalive
            self._watch(conn, selectors.EVENT_READ, self._receive, seconds)
            if conn.arrived:
                self._go_on(conn)
        else:
            conn.end_sending()
            self._watch(conn, selectors.EVENT_READ, self._discard, _LINGER_SECONDS)

    def _flush(self, conn: Connection) -> None:
        # The client accepts data, so its wait restarts: stalled connections are closed before it.
        conn.writing.waited += time.monotonic() - conn.began
        self._unwatch(conn)
        self._send_rest(conn)

    def _discard(self, conn: Connection) -> None:
        conn.receive()
        conn.arrived.clear()
        if conn.is_over:
            self._drop(conn)

    def _refuse(self, conn: Connection, status: HTTPStatus, message: str) -> None:
        self._unwatch(conn)
        conn.refuse(status, message)
        self._send_rest(conn)

    # --- Waiting, and its end. ---

    def _watch(
        self, conn: Connection, event: int, then: Callable[[Connection], None], seconds: float
    ) -> None:
        """Have the loop call ``then`` when the connection is ready, or cut it after ``seconds``."""
        conn.began = time.monotonic()
        conn.deadline = conn.began + seconds
        self._selector.register(conn, event, then)
        self._waiting.put(conn)

    def _unwatch(self, conn: Connection) -> None:
        if conn in self._waiting:
            self._waiting.take(conn)
            self._selector.unregister(conn)

    def _drop(self, conn: Connection) -> None:
        self._unwatch(conn)
        conn.close()
        self._open -= 1
