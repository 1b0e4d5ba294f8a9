"""How gunicorn serves the API: ``gunicorn --config python:master.gunicorn_conf``."""

import ctypes
import signal
from typing import Any

from gunicorn import util
from gunicorn.workers.base import Worker

from master.hearing import Ear
from master.serving.canary import Canary
from master.serving.refusals import write_json_error

_PR_SET_PDEATHSIG = 1

wsgi_app = "master.app:get_app()"
# One process, so that its own metrics are whole; threads, as requests wait for the database.
workers = 1
worker_class = "master.serving.worker.Worker"
# A thousand agents keep two each, for polling and for shipping.
worker_connections = 4000
# Agents poll, and their connections stay open in between.
keepalive = 75
graceful_timeout = 5
loglevel = "warning"
control_socket_disable = True

# Gunicorn answers what is no HTTP by itself, in HTML, and has no setting for it.
util.write_error = write_json_error


def post_fork(server: object, worker: object) -> None:
    """Have the worker end with its arbiter, whose successor needs the port at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def post_worker_init(worker: Worker) -> None:
    """Have the master ask itself whether it hears."""
    canary = Canary(Ear().hear)
    worker.wsgi = canary.answering(worker.wsgi)  # type: ignore[assignment]
    canary.start(worker.sockets[0])


def post_request(worker: object, req: object, environ: dict[str, Any], resp: Any) -> None:
    """Note on the connection how its request was answered."""
    if resp is not None:
        environ["gunicorn.socket"].status = resp.status_code
