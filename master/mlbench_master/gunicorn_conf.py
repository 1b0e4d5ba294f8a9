"""How gunicorn serves the API: ``gunicorn --config python:mlbench_master.gunicorn_conf``."""

import ctypes
import signal
from typing import Any

from gunicorn import util
from gunicorn.workers.base import Worker

from mlbench_master import interpreter
from mlbench_master.runs.reachability import HeartbeatCounter
from mlbench_master.serving.canary import Canary
from mlbench_master.serving.worker import write_json_error

_PR_SET_PDEATHSIG = 1

wsgi_app = "mlbench_master.app:get_app()"
# One process, which has all of its metrics; threads, as requests wait for the database.
workers = 1
worker_class = "mlbench_master.serving.worker.Worker"
# A thousand agents have two each, for polling and for shipping.
worker_connections = 4000
# Longer than the time between two polls of an agent.
keepalive = 75
graceful_timeout = 5
loglevel = "warning"
control_socket_disable = True

# Gunicorn answers what is not HTTP by itself, in HTML, and has no setting for it.
util.write_error = write_json_error


def post_fork(server: object, worker: object) -> None:
    """End the worker when its arbiter dies: the next one needs the port at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def post_worker_init(worker: Worker) -> None:
    """Start the heartbeats by which the master knows that it can hear its agents."""
    interpreter.tune()
    canary = Canary(HeartbeatCounter().hear)
    worker.wsgi = canary.answering(worker.wsgi)  # type: ignore[assignment]
    canary.start(worker.sockets[0])


def post_request(worker: object, req: object, environ: dict[str, Any], resp: Any) -> None:
    """Note the status of an answer on its connection."""
    if resp is not None:
        environ["gunicorn.socket"].status = resp.status_code
