"""Cost of watching a run of many workers for Prometheus: rules and dashboard queries."""

import json
import math
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure, timed
from benchmarks.servers import running_prometheus
from mlbench.contract import names
from mlbench.contract.names import Phase
from mlbench.local.assets import prometheus_folder
from mlbench_master.reading.promql import PrometheusClient
from tests.support.dashboards import load
from tests.support.panels import Grafana, View

WORKERS = int(os.environ.get("WORKERS", "200"))
STRAGGLER = 17
_STEP_SECONDS = 0.1
# Shares of a rank's compute time by phase.
_COMPUTES: Final[dict[Phase, float]] = {
    "data": 0.1,
    "forward": 0.3,
    "backward": 0.5,
    "optimizer": 0.08,
    "metrics": 0.02,
}
_BUCKETS = ("0.05", "0.1", "0.25", "+Inf")
# Until the rules, which look back over a minute, have all there is to compute.
_WATCHED_SECONDS = 90.0
_TIMES = 7
_BOARDS = ("mlbench-run", "mlbench-workers")


def measure(folder: Path) -> list[Figure]:
    """Return milliseconds per evaluation of all rules, and for all queries of each board."""
    began = time.time()
    with watched_workers(folder) as prometheus:
        time.sleep(_WATCHED_SECONDS)
        figures = []
        for uid in _BOARDS:
            rounds = [ask_board(prometheus, uid, began, 1) for _ in range(_TIMES)]
            name = f"{uid}: {len(rounds[0])} queries, {WORKERS} workers"
            figures.append(Figure(name, "ms", [1000 * sum(seconds) for seconds in rounds]))
            slowest = [1000 * max(seconds) for seconds in rounds]
            figures.append(Figure("  the slowest of them", "ms", slowest))
        interval, milliseconds = 5, []
        for ago in range(_TIMES):
            [result] = prometheus.query(
                "sum(prometheus_rule_group_last_duration_seconds)", time.time() - ago * interval
            )
            milliseconds.append(float(result.values[-1]) * 1000)
    name = f"all rules, {WORKERS} workers, every {interval} s"
    return [Figure(name, "ms", milliseconds), *figures]


def ask_board(prometheus: PrometheusClient, uid: str, began: float, run_id: int) -> list[float]:
    """Ask all that an opened dashboard asks of a run; return how many seconds each query took."""
    board = load(uid)
    closed = {panel["title"] for row in board.json["panels"] for panel in row.get("panels", ())}
    grafana = Grafana(prometheus, View("watched", began, time.time(), str(run_id)))
    queries = [query for query in grafana.queries(board) if query.options is None]
    return [timed(partial(grafana.ask, query)) for query in queries if query.place not in closed]


@contextmanager
def watched_workers(folder: Path) -> Iterator[PrometheusClient]:
    """Run a Prometheus with all rules that watches all workers and itself."""
    shutil.copytree(prometheus_folder() / "rules", folder / "rules")
    (folder / "password").touch()  # It scrapes itself with one, though it asks for none here.
    with serving_workers() as port:
        write_targets(folder / "targets", port)
        with running_prometheus(folder) as url:
            targets = [{"targets": [url.removeprefix("http://")]}]
            (folder / "targets" / "prometheus.json").write_text(json.dumps(targets))
            prometheus = PrometheusClient(url)
            yield prometheus
            prometheus.close()


@contextmanager
def serving_workers() -> Iterator[int]:
    """Serve the metrics of all workers and of their master; give the port."""
    began = time.time()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, kind, number = self.path.split("/")
            now = time.time()
            lines = _LINES[kind](int(number), now, began)
            body = "".join(f"{line}\n" for line in lines).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # Prometheus is ended before this server
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def write_targets(folder: Path, port: int) -> None:
    """Tell Prometheus, which reads that folder, of the master and of all workers on a port."""

    def target(path: str, instance: str) -> dict[str, object]:
        labels = {"__metrics_path__": path, "instance": instance}
        return {"targets": [f"127.0.0.1:{port}"], "labels": labels}

    jobs = {
        "master": [target("/master/0", "master")],
        "workers": [target(f"/worker/{number}", f"w{number}") for number in range(WORKERS)],
        "exporter": [target("/used/0", "used"), target("/recorded/0", "recorded")],
    }
    folder.mkdir()
    for job, targets in jobs.items():
        (folder / f"{job}.json").write_text(json.dumps(targets))


def _master(_: int, now: float, began: float) -> Iterator[str]:
    yield f'{names.RUN_INFO}{{run_id="1",name="big",benchmark="digits",workers="{WORKERS}"}} 1'
    yield f'{names.RUN_WORKERS}{{run_id="1"}} {WORKERS}'
    yield f'{names.RUN_WORLD_SIZE}{{run_id="1"}} {WORKERS}'
    yield f'{names.RUN_STARTED}{{run_id="1"}} {began}'
    yield f'{names.RUN_TARGET}{{run_id="1",metric="{names.VAL_ACCURACY}"}} 97'
    yield f'{names.RUN_STATE}{{run_id="1",state="STARTED"}} 1'
    for number in range(WORKERS):
        yield f'{names.POD_INFO}{{pod="w{number}",phase="Running",node="n{number % 20}"}} 1'
        yield f'{names.POD_HEARTBEAT}{{pod="w{number}"}} {now}'


def _worker(number: int, now: float, began: float) -> Iterator[str]:
    """Yield the lines of one worker's agent."""
    seconds = now - began
    steps = int(seconds / _STEP_SECONDS)
    rank = f'run_id="1",rank="{number}"'
    yield f'{names.WORKER_INFO}{{pod="w{number}",{rank}}} 1'
    yield f"{names.WORKER_RUNNING}{{{rank}}} 1"
    yield f"{names.WORKER_TIME} {now}"
    yield f"{names.WORKER_PROGRESS}{{{rank}}} {now}"
    yield f"{names.WORKER_STEPS}{{{rank}}} {steps}"
    yield f"{names.WORKER_SAMPLES}{{{rank}}} {steps * 64}"
    yield f"{names.WORKER_STEP_SECONDS}_sum{{{rank}}} {seconds}"
    yield f"{names.WORKER_STEP_SECONDS}_count{{{rank}}} {steps}"
    for bucket in _BUCKETS:
        yield f'{names.WORKER_STEP_SECONDS}_bucket{{{rank},le="{bucket}"}} {steps}'
    for phase, value in _phases(number, seconds).items():
        yield f'{names.WORKER_PHASE_SECONDS}{{{rank},phase="{phase}"}} {value}'


def _recorded(_: int, now: float, began: float) -> Iterator[str]:
    """Yield what all ranks record. Scraped, it costs Prometheus what written values cost."""
    seconds = now - began
    learnt = 1 - math.exp(-seconds / 300)
    for number in range(WORKERS):
        recorded = {
            names.TRAIN_LOSS: 2.3 - 2.1 * learnt + number % 11 / 100,
            names.TRAIN_ACCURACY: 10 + 88 * learnt - number % 5 / 2,
            names.VAL_ACCURACY: 10 + 86 * learnt,
            names.LEARNING_RATE: 0.1,
            names.STEP: int(seconds / _STEP_SECONDS),
            names.EPOCH: int(seconds / 30),
            names.SAMPLES: int(seconds / _STEP_SECONDS) * 64,
            names.TRAIN_SECONDS: seconds,
        }
        for phase, value in _phases(number, seconds).items():
            recorded[names.phase_metric(phase)] = value
        for metric, value in recorded.items():
            yield f'{names.RUN_METRIC}{{run_id="1",rank="{number}",metric="{metric}"}} {value}'


def _used(_: int, now: float, began: float) -> Iterator[str]:
    """Yield what all workers use."""
    seconds = now - began
    for number in range(WORKERS):
        busy, node = _computes(number), f"n{number % 20}"
        container = f'namespace="n",pod="w{number}",container="worker",node="{node}"'
        yield f"container_cpu_usage_seconds_total{{{container}}} {seconds * (0.5 + busy)}"
        for way in ("receive", "transmit"):
            sent_bytes = seconds * (4e7 + number * 1e4)
            yield f"container_network_{way}_bytes_total{{{container}}} {sent_bytes}"
        yield f"container_memory_working_set_bytes{{{container}}} {2e9 + number * 1e6}"
        yield f"container_threads{{{container}}} {40 + number % 3}"
        gpu = f'node="{node}",gpu="{number // 20}",uuid="GPU-{number}",pod="w{number}"'
        yield f"mlbench_gpu_utilization_ratio{{{gpu}}} {busy}"
        yield f"mlbench_gpu_memory_used_bytes{{{gpu}}} {3e10 + number * 1e6}"
        yield f"mlbench_gpu_memory_total_bytes{{{gpu}}} 8e10"
        yield f"mlbench_gpu_power_watts{{{gpu}}} {100 + 500 * busy}"


def _phases(number: int, seconds: float) -> dict[Phase, float]:
    """Return the seconds of a rank's phases: what it does not compute, it waits."""
    busy = _computes(number)
    phases = {phase: seconds * busy * share for phase, share in _COMPUTES.items()}
    return phases | {"communication": seconds * (1 - busy), "evaluation": seconds * 0.04}


def _computes(number: int) -> float:
    """Return which part of a step a rank computes: the straggler twice as much as the others."""
    return 0.9 if number == STRAGGLER else 0.42 + number % 7 / 100


_LINES: Final = {"master": _master, "worker": _worker, "recorded": _recorded, "used": _used}
