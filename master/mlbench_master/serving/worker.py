"""Gunicorn's threaded worker, behind a loop in which requests and answers wait for slow clients.

A thread takes a request once it is complete, and is done once its answer is handed to the loop.
Each kind of request has threads of its own (``bulkheads.py``). Clients must keep a minimum rate
(``buffered.py``). When connections or memory run short, the one that has waited longest is closed.
"""

import errno
import json
import resource
import selectors
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from gunicorn.workers.gthread import ThreadWorker

from mlbench_master.serving.buffered import LEAST_BYTES_PER_SECOND, STALL_SECONDS
from mlbench_master.serving.bulkheads import Bulkhead, Bulkheads, find_head
from mlbench_master.serving.connections import Connection, Waiting

_HEAD_SECONDS = 5.0
# A client gets this long to read its answer before the connection is closed.
_LINGER_SECONDS = 2.0
# The memory of all requests and answers that wait.
_MOST_HELD_BYTES = 128 << 20
_ACCEPTED_AT_ONCE = 64
# Descriptors for databases, Prometheus and other things that threads open.
_OWN_DESCRIPTORS = 256
_SWEEP_SECONDS = 0.5
# An agent that waits longer may have given up.
_PATIENT_SECONDS = 1.0
# The system has no descriptors or memory left.
_SHORT_OF = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def write_json_error(sock: socket.socket, status_int: int, reason: str, mesg: str) -> None:
    """Answer a request that is not HTTP in JSON, as gunicorn's own function does in HTML."""
    sock.sendall(_refusal(status_int, reason, mesg or reason))


def _refusal(status: int, reason: str, message: str, *headers: str) -> bytes:
    """Return an answer that is an error, after which the connection is closed."""
    body = json.dumps({"status": status, "message": message})
    its = (f"HTTP/1.1 {status} {reason}", f"Content-Length: {len(body)}", *headers)
    lines = (*its, "Content-Type: application/json", "Connection: close", "", body)
    return "\r\n".join(lines).encode("latin-1")


class Worker(ThreadWorker):
    """One process that serves the API."""

    def init_process(self) -> None:
        """Prepare the threads, and room for as many connections as the system allows."""
        self._waiting = Waiting()
        self._bulkheads = Bulkheads(self._serve)
        self._swept_at = 0.0
        # Looked up as gunicorn does, the settings take a third of the time of parsing a request.
        vars(self.cfg).update({name: its.get() for name, its in self.cfg.settings.items()})
        most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = self.worker_connections + _OWN_DESCRIPTORS
        if most < wanted:
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        self.worker_connections = max(1, min(self.worker_connections, most - _OWN_DESCRIPTORS))
        super().init_process()

    def run(self) -> None:
        """Serve until told to end; then finish what is under way."""
        queue = self.method_queue
        self.poller.register(cast("int", queue.fileno()), selectors.EVENT_READ, queue.run_callbacks)
        self.set_accept_enabled(True)
        while self.alive:
            self._turn()
        self.set_accept_enabled(False)
        end = time.monotonic() + self.cfg.graceful_timeout
        while self.nr_conns and time.monotonic() < end:
            # A client may be sending its next request already.
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
                if now >= conn.deadline:
                    self._cut(conn)

    # --- A connection comes. ---

    def accept(self, listener: socket.socket) -> None:
        """Accept some connections; the rest after other events had their turn."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                opened, client = listener.accept()
            except OSError as error:
                if error.errno in _SHORT_OF and not self._make_room():
                    # Until the next sweep: the listener would be readable at once again.
                    self.set_accept_enabled(False)
                return
            if self.nr_conns >= self.worker_connections and not self._make_room():
                opened.close()
                continue
            self.nr_conns += 1
            self._await_request(Connection(self.cfg, opened, client, listener.getsockname()))

    def _make_room(self) -> bool:
        """Close the connection that has waited longest; return whether there was one."""
        first = self._waiting.first()
        if first is not None:
            self._drop(first)
        return first is not None

    # --- A request arrives. ---

    def _await_request(self, conn: Connection) -> None:
        self._watch(conn, selectors.EVENT_READ, self._receive, self.cfg.keepalive)

    def _receive(self, conn: Connection) -> None:
        if conn.buffered.receive():
            self._waiting.put(conn)
            self._go_on(conn)
        elif conn.buffered.over:
            self._drop(conn)
        if self._waiting.held > _MOST_HELD_BYTES:
            self._make_room()

    def _go_on(self, conn: Connection) -> None:
        """Give a request to a thread if it is complete; otherwise set its deadline."""
        arrived, now = conn.buffered.arrived, time.monotonic()
        if conn.head is None:
            if conn.deadline - now > _HEAD_SECONDS:
                conn.began, conn.deadline = now, now + _HEAD_SECONDS
            conn.head = find_head(arrived)
        if conn.head is None:
            return
        if len(arrived) >= conn.head.whole:
            self._unwatch(conn)
            self._submit(conn, conn.head.bulkhead)
            return
        in_all = conn.began + STALL_SECONDS + len(arrived) / LEAST_BYTES_PER_SECOND
        conn.deadline = min(now + STALL_SECONDS, in_all)

    def _submit(self, conn: Connection, bulkhead: Bulkhead) -> None:
        if self._bulkheads.is_full(bulkhead):
            self._refuse(conn, 503, "Service Unavailable", "the master is busy: try again later")
            return
        conn.buffered.begin()
        self._bulkheads.submit(bulkhead, conn)

    def _serve(self, conn: Connection, bulkhead: Bulkhead) -> None:
        conn.stays = False
        try:
            conn.stays = self._answer(conn, bulkhead)
            while conn.stays and bulkhead is Bulkhead.OTHERS and self._has_next(conn):
                conn.stays = self._answer(conn, bulkhead)
        except BaseException:  # whatever it is, the thread is needed
            self.log.exception("a request failed")
        self.method_queue.defer(self._finish, conn, bulkhead)

    def _answer(self, conn: Connection, bulkhead: Bulkhead) -> bool:
        """Answer a request in a thread, unless an agent has given it up meanwhile."""
        buffered = conn.buffered
        buffered.waited = time.monotonic() - buffered.whole_at
        is_late = bulkhead is Bulkhead.POLLS and buffered.waited > _PATIENT_SECONDS
        return not (is_late and buffered.is_gone) and self.handle(conn)

    def _has_next(self, conn: Connection) -> bool:
        """Check if a user's next request comes at once, and no other one waits for the thread."""
        is_free = self.alive and not self._bulkheads.has_waiting(Bulkhead.OTHERS)
        return is_free and conn.receive_next(Bulkhead.OTHERS)

    # --- An answer leaves. ---

    def _finish(self, conn: Connection, bulkhead: Bulkhead) -> None:
        """Send the rest of the answer, then wait for the next request or close."""
        self._bulkheads.note_done(bulkhead)
        conn.stays = conn.stays and self.alive
        self._send_rest(conn)

    def _send_rest(self, conn: Connection) -> None:
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

    def _flush(self, conn: Connection) -> None:
        # It takes some, so it waits anew: connections that take nothing are closed before it.
        conn.buffered.writing.note(0, time.monotonic() - conn.began)
        self._unwatch(conn)
        self._send_rest(conn)

    def _discard(self, conn: Connection) -> None:
        conn.buffered.receive()
        conn.buffered.arrived.clear()
        if conn.buffered.over:
            self._drop(conn)

    def _refuse(self, conn: Connection, status: int, reason: str, message: str) -> None:
        conn.stays = False
        conn.buffered.arrived.clear()
        conn.buffered.begin()
        conn.buffered.sendall(_refusal(status, reason, message, "Retry-After: 5"))
        self._send_rest(conn)

    # --- Waiting, and its end. ---

    def _watch(
        self, conn: Connection, event: int, then: Callable[[Connection], None], seconds: float
    ) -> None:
        """Have the loop call ``then`` when the connection is ready, or cut it after the time."""
        conn.began = time.monotonic()
        conn.deadline = conn.began + seconds
        self.poller.register(conn.buffered.fileno(), event, partial(self._call, then, conn))
        self._waiting.put(conn)
        while self._waiting.held > _MOST_HELD_BYTES:
            self._make_room()

    def _call(self, then: Callable[[Connection], None], conn: Connection, _: Any) -> None:
        # A call for an earlier event of the same turn may have dropped it.
        if conn in self._waiting:
            then(conn)

    def _unwatch(self, conn: Connection) -> None:
        if conn in self._waiting:
            self._waiting.take(conn)
            self.poller.unregister(conn.buffered.fileno())

    def _cut(self, conn: Connection) -> None:
        """Close a connection whose time is over, with an answer if its request has begun."""
        asks = bool(conn.buffered.arrived) and not (conn.buffered.is_sending or conn.buffered.over)
        self._unwatch(conn)
        if asks:
            self._refuse(conn, 408, "Request Timeout", "the request did not come in time")
        else:
            self._drop(conn)

    def _drop(self, conn: Connection) -> None:
        self._unwatch(conn)
        conn.buffered.hang_up()
        self.nr_conns -= 1
