"""Configuration of gunicorn: ``gunicorn --config python:mlbench_master.gunicorn_conf``."""

import ctypes
import signal

from gunicorn.workers.base import Worker

from mlbench_master import interpreter
from mlbench_master.runs.reachability import HeartbeatCounter
from mlbench_master.serving.canary import hear_itself

wsgi_app = "mlbench_master.app:get_app()"
# One process, so that it has all metrics. Threads, because requests wait for the database.
workers = 1
worker_class = "mlbench_master.serving.gunicorn_worker.BulkheadWorker"
# A thousand agents have two connections each, for polling and for shipping.
worker_connections = 4000
# Longer than the time between two polls of an agent.
keepalive = 75
graceful_timeout = 5
loglevel = "warning"
control_socket_disable = True
# The app reads the headers of proxies itself: http/proxies.py.
forwarded_allow_ips = ""


def post_fork(server: object, worker: object) -> None:
    """Kill the worker when its arbiter dies, because the next one needs the port at once."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def post_worker_init(worker: Worker) -> None:
    """Start the heartbeats by which the master knows that agents can reach it."""
    interpreter.tune()
    heartbeats = HeartbeatCounter()
    app = hear_itself(worker.wsgi, worker.sockets[0], heartbeats.hear)
    worker.wsgi = app  # type: ignore[assignment]
