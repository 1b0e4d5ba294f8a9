"""Gunicorn's threaded worker, with an event loop in front that absorbs slow clients.

A thread gets a request once it is complete, and is free once the loop has its response. Each kind
of request has its own threads (``bulkheads.py``). Clients must keep a minimum rate
(``buffered.py``). If connections or memory run short, the longest waiting connection is closed.
"""

import errno
import json
import resource
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any, cast

from gunicorn.workers.gthread import ThreadWorker

from mlbench_master.serving.buffered import MIN_BYTES_PER_SECOND, STALL_SECONDS
from mlbench_master.serving.bulkheads import Bulkhead, Bulkheads, find_head
from mlbench_master.serving.connections import ClientConnection, WaitingConnections

# Time for the client to read its response before the connection is closed.
_LINGER_SECONDS = 2.0
# Limit on the memory of all requests and responses that wait in the loop.
_MAX_HELD_BYTES = 128 << 20
# File descriptors for databases, Prometheus and other uses in threads.
_OWN_DESCRIPTORS = 256
_SWEEP_SECONDS = 0.5
# The system has no descriptors or memory left.
_SHORT_OF = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def write_json_error(sock: socket.socket, status_int: int, reason: str, mesg: str) -> None:
    """Respond in JSON to a request that is not HTTP, where gunicorn's own function writes HTML."""
    sock.sendall(_refusal(status_int, reason, mesg or reason))


def _refusal(status: int, reason: str, message: str, *headers: str) -> bytes:
    """Return an error response, after which the connection is closed."""
    body = json.dumps({"status": status, "message": message})
    lines = [
        f"HTTP/1.1 {status} {reason}",
        f"Content-Length: {len(body)}",
        *headers,
        *("Content-Type: application/json", "Connection: close", "", body),
    ]
    return "\r\n".join(lines).encode("latin-1")


class ThreadedWorker(ThreadWorker):
    """One process that serves the API."""

    def init_process(self) -> None:
        """Prepare the threads, and raise the limit of file descriptors as needed."""
        self._waiting = WaitingConnections()
        self._bulkheads = Bulkheads(self._serve)
        self._swept_at = 0.0
        # Cached, because gunicorn's lookups take a third of the time of parsing a request.
        vars(self.cfg).update({name: item.get() for name, item in self.cfg.settings.items()})
        limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        required = self.worker_connections + _OWN_DESCRIPTORS
        if limit < required:
            limit = required if hard == resource.RLIM_INFINITY else min(required, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        self.worker_connections = max(1, min(self.worker_connections, limit - _OWN_DESCRIPTORS))
        super().init_process()

    def run(self) -> None:
        """Serve until the process ends, then finish the active requests."""
        queue = self.method_queue
        self.poller.register(cast("int", queue.fileno()), selectors.EVENT_READ, queue.run_callbacks)
        self.set_accept_enabled(True)
        while self.alive:
            self._turn()
        self.set_accept_enabled(False)
        end = time.monotonic() + self.cfg.graceful_timeout
        while self.nr_conns and time.monotonic() < end:
            # A client may already be sending its next request.
            for conn in self._waiting:
                conn.deadline = min(conn.deadline, conn.began + _LINGER_SECONDS)
            self._turn()
        self.poller.close()
        self.method_queue.close()
        for listener in self.sockets:
            listener.close()

    def _turn(self) -> None:
        self.wait_for_and_dispatch_events(timeout=_SWEEP_SECONDS)
        now = time.monotonic()
        if now - self._swept_at >= _SWEEP_SECONDS:
            self._swept_at = now
            self.notify()
            self.alive = self.alive and self.is_parent_alive()
            self.set_accept_enabled(self.alive)
            for conn in self._waiting:
                if now < conn.deadline:
                    continue
                buffered = conn.buffered
                has_begun = buffered.arrived and not (buffered.is_sending or buffered.over)
                self._unwatch(conn)
                if has_begun:
                    self._refuse(conn, 408, "Request Timeout", "the request did not arrive in time")
                else:
                    self._drop(conn)

    # --- A connection arrives. ---

    def accept(self, listener: socket.socket) -> None:
        """Accept up to 64 connections; the others wait until other events are handled."""
        for _ in range(64):
            try:
                opened, client = listener.accept()
            except OSError as error:
                if error.errno in _SHORT_OF and not self._make_room():
                    # Until the next sweep, because the listener would stay readable.
                    self.set_accept_enabled(False)
                return
            if self.nr_conns >= self.worker_connections and not self._make_room():
                opened.close()
                continue
            self.nr_conns += 1
            self._await_request(ClientConnection(self.cfg, opened, client, listener.getsockname()))

    def _make_room(self) -> bool:
        """Close the longest waiting connection; return whether there was one."""
        first = self._waiting.first()
        if first is not None:
            self._drop(first)
        return first is not None

    # --- A request arrives. ---

    def _await_request(self, conn: ClientConnection) -> None:
        self._watch(conn, selectors.EVENT_READ, self._receive, self.cfg.keepalive)

    def _receive(self, conn: ClientConnection) -> None:
        if conn.buffered.receive():
            self._waiting.put(conn)
            self._go_on(conn)
        elif conn.buffered.over:
            self._drop(conn)
        if self._waiting.held > _MAX_HELD_BYTES:
            self._make_room()

    def _go_on(self, conn: ClientConnection) -> None:
        """Give a request to a thread if it is complete; otherwise set its deadline."""
        arrived, now = conn.buffered.arrived, time.monotonic()
        if conn.head is None:
            head_seconds = 5.0
            if conn.deadline - now > head_seconds:
                conn.began, conn.deadline = now, now + head_seconds
            conn.head = find_head(arrived)
        if conn.head is None:
            return
        if len(arrived) >= conn.head.whole:
            self._unwatch(conn)
            bulkhead = conn.head.bulkhead
            if self._bulkheads.is_full(bulkhead):
                self._refuse(
                    conn, 503, "Service Unavailable", "the master is busy. Try again later."
                )
                return
            conn.buffered.begin()
            self._bulkheads.submit(bulkhead, conn)
            return
        total = conn.began + STALL_SECONDS + len(arrived) / MIN_BYTES_PER_SECOND
        conn.deadline = min(now + STALL_SECONDS, total)

    def _serve(self, conn: ClientConnection, bulkhead: Bulkhead) -> None:
        """Handle a request in a thread, and the next ones of a user that have come meanwhile."""
        buffered, conn.stays, is_next = conn.buffered, False, True
        try:
            while is_next:
                buffered.waited = time.monotonic() - buffered.whole_at
                # An agent that has given up waiting gets no response.
                is_late = bulkhead is Bulkhead.POLLS and buffered.waited > 1.0
                conn.stays = not (is_late and buffered.is_gone) and self.handle(conn)
                is_next = (
                    conn.stays
                    and bulkhead is Bulkhead.OTHERS
                    and self.alive
                    # No other request needs the thread.
                    and not self._bulkheads.has_waiting(bulkhead)
                    and conn.receive_next(bulkhead)
                )
        except BaseException:  # the thread must survive every error
            self.log.exception("a request failed")
        self.method_queue.defer(self._finish, conn, bulkhead)

    # --- A response leaves. ---

    def _finish(self, conn: ClientConnection, bulkhead: Bulkhead) -> None:
        """Send the rest of the response, then wait for the next request or close."""
        self._bulkheads.note_done(bulkhead)
        conn.stays = conn.stays and self.alive
        self._send_rest(conn)

    def _send_rest(self, conn: ClientConnection) -> None:
        if not conn.buffered.flush():
            self._watch(conn, selectors.EVENT_WRITE, self._flush, conn.buffered.writing.timeout)
            return
        conn.finish()
        if conn.buffered.over and not conn.buffered.arrived:
            self._drop(conn)
        elif conn.stays:
            self._await_request(conn)
            if conn.buffered.arrived:
                self._go_on(conn)
        else:
            conn.buffered.end_sending()
            self._watch(conn, selectors.EVENT_READ, self._discard, _LINGER_SECONDS)

    def _flush(self, conn: ClientConnection) -> None:
        # The client accepts data, so its wait restarts: stalled connections are closed before it.
        conn.buffered.writing.note(0, time.monotonic() - conn.began)
        self._unwatch(conn)
        self._send_rest(conn)

    def _discard(self, conn: ClientConnection) -> None:
        conn.buffered.receive()
        conn.buffered.arrived.clear()
        if conn.buffered.over:
            self._drop(conn)

    def _refuse(self, conn: ClientConnection, status: int, reason: str, message: str) -> None:
        conn.stays = False
        conn.buffered.arrived.clear()
        conn.buffered.begin()
        conn.buffered.sendall(_refusal(status, reason, message, "Retry-After: 5"))
        self._send_rest(conn)

    # --- Waiting, and its end. ---

    def _watch(
        self,
        conn: ClientConnection,
        event: int,
        then: Callable[[ClientConnection], None],
        seconds: float,
    ) -> None:
        """Have the loop call ``then`` when the connection is ready, or cut it after ``seconds``."""

        def handle_event(_: Any) -> None:
            # An earlier event of the same turn may have dropped the connection.
            if conn in self._waiting:
                then(conn)

        conn.began = time.monotonic()
        conn.deadline = conn.began + seconds
        self.poller.register(conn.buffered.fileno(), event, handle_event)
        self._waiting.put(conn)
        while self._waiting.held > _MAX_HELD_BYTES:
            self._make_room()

    def _unwatch(self, conn: ClientConnection) -> None:
        if conn in self._waiting:
            self._waiting.take(conn)
            self.poller.unregister(conn.buffered.fileno())

    def _drop(self, conn: ClientConnection) -> None:
        self._unwatch(conn)
        conn.buffered.hang_up()
        self.nr_conns -= 1
