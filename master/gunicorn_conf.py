"""How gunicorn serves the API: ``gunicorn --config python:master.gunicorn_conf``."""

import ctypes
import json
import signal
import socket

from gunicorn import util

_PR_SET_PDEATHSIG = 1

wsgi_app = "master.app:get_app()"
# One process, so that its own metrics are whole; threads, as requests wait for the database.
workers = 1
worker_class = "gthread"
threads = 16
# Agents poll, and their connections stay open in between.
keepalive = 75
graceful_timeout = 5
loglevel = "warning"
control_socket_disable = True


def write_json_error(sock: socket.socket, status_int: int, reason: str, mesg: str) -> None:
    """Answer a request that is no HTTP as the API answers every other wrong one."""
    body = json.dumps({"status": status_int, "message": mesg or reason})
    util.write_nonblock(
        sock,
        f"HTTP/1.1 {status_int} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode("latin-1"),
    )


# Gunicorn answers these by itself, in HTML, and has no setting for it.
util.write_error = write_json_error


def post_fork(server: object, worker: object) -> None:
    """Have the worker end with its arbiter, whose successor needs the port at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
