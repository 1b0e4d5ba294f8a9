"""How gunicorn serves the API: ``gunicorn --config python:master.gunicorn_conf``."""

import ctypes
import signal

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


def post_fork(server: object, worker: object) -> None:
    """Have the worker end with its arbiter, whose successor needs the port at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
