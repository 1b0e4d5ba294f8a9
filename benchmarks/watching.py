"""What watching a run of 200 workers costs Prometheus: its rules, and a dashboard's queries."""

import json
import math
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from benchmarks.measure import Figure
from benchmarks.servers import running_prometheus
from master.reading.promql import PrometheusClient
from mlbench import names
from mlbench.assets import prometheus_folder
from mlbench.names import Phase
from tests.grafana.asking import Grafana, View
from tests.grafana.dashboards import load_all

WORKERS = 200
STRAGGLER = 17
_STEP_SECONDS = 0.1
# Of a step, what a rank computes; for the rest it waits.
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
    """Return milliseconds: of all rules each time they are evaluated, and of all of a board."""
    shutil.copytree(prometheus_folder() / "rules", folder / "rules")
    began = time.time()
    with serving_workers() as port:
        write_targets(folder / "targets", port)
        with running_prometheus(folder) as url:
            own = [{"targets": [url.removeprefix("http://")]}]
            (folder / "targets" / "prometheus.json").write_text(json.dumps(own))
            time.sleep(_WATCHED_SECONDS)
            prometheus = PrometheusClient(url)
            figures = [_rules(prometheus)]
            figures += [_board(prometheus, uid, began) for uid in _BOARDS]
            prometheus.close()
    return figures


def _rules(prometheus: PrometheusClient) -> Figure:
    """Return how long an evaluation of all rules took, the last so many times."""
    interval = 5
    values = []
    for ago in range(_TIMES):
        [found] = prometheus.query(
            "sum(prometheus_rule_group_last_duration_seconds)", time.time() - ago * interval
        )
        values.append(float(found.values[-1]) * 1000)
    return Figure(f"all rules, {WORKERS} workers, every {interval} s", "ms", values)


def _board(prometheus: PrometheusClient, uid: str, began: float) -> Figure:
    """Return how long it takes to ask all that an opened dashboard asks, one after the other."""
    [board] = [board for board in load_all() if board.uid == uid]
    closed = {one["title"] for row in board.json["panels"] for one in row.get("panels", ())}
    values = []
    for _ in range(_TIMES):
        grafana = Grafana(prometheus, View("watched", began, time.time(), "1"))
        begin = time.perf_counter()
        asked = [query for query in grafana.queries(board) if query.options is None]
        queries = [query for query in asked if query.place not in closed]
        for query in queries:
            grafana.ask(query)
        values.append((time.perf_counter() - begin) * 1000)
    return Figure(f"{uid}: {len(queries)} queries, {WORKERS} workers", "ms", values)


@contextmanager
def serving_workers() -> Iterator[int]:
    """Serve the metrics of all workers and of their master; give the port."""
    began = time.time()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, what, number = self.path.split("/")
            now = time.time()
            lines = _master(now, began) if what == "master" else _worker(int(number), now, began)
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
    }
    folder.mkdir()
    for job, targets in jobs.items():
        (folder / f"{job}.json").write_text(json.dumps(targets))


def _master(now: float, began: float) -> Iterator[str]:
    yield f'{names.RUN_INFO}{{run_id="1",name="big",benchmark="digits",workers="{WORKERS}"}} 1'
    yield f'{names.RUN_WORKERS}{{run_id="1"}} {WORKERS}'
    yield f'{names.RUN_STARTED}{{run_id="1"}} {began}'
    yield f'{names.RUN_GOAL}{{run_id="1",metric="{names.VAL_ACCURACY}"}} 97'
    yield f'{names.RUN_STATE}{{run_id="1",state="STARTED"}} 1'
    for number in range(WORKERS):
        yield f'{names.POD_INFO}{{pod="w{number}",phase="Running",node="n{number % 20}"}} 1'
        yield f'{names.POD_HEARTBEAT}{{pod="w{number}"}} {now}'


def _worker(number: int, now: float, began: float) -> Iterator[str]:
    """Yield the lines of one worker's agent, exporter and recording."""
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
    computes = _computes(number)
    of_step = {phase: computes * share for phase, share in _COMPUTES.items()}
    of_step |= {"communication": 1 - computes, "evaluation": 0.04}
    for phase, share in of_step.items():
        value = seconds * share
        yield f'{names.WORKER_PHASE_SECONDS}{{{rank},phase="{phase}"}} {value}'
        yield f'{names.RUN_METRIC}{{{rank},metric="{names.phase_metric(phase)}"}} {value}'
    for metric, value in _recorded(number, seconds).items():
        yield f'{names.RUN_METRIC}{{{rank},metric="{metric}"}} {value}'
    container = f'namespace="n",pod="w{number}",container="worker",node="n{number % 20}"'
    used = {
        "cpu_usage_seconds": seconds * (0.5 + computes),
        "network_receive_bytes": seconds * (4e7 + number * 1e4),
        "network_transmit_bytes": seconds * (4e7 + number * 1e4),
    }
    for what, value in used.items():
        yield f"container_{what}_total{{{container}}} {value}"
    yield f"container_memory_working_set_bytes{{{container}}} {2e9 + number * 1e6}"
    yield f"container_threads{{{container}}} {40 + number % 3}"
    gpu = f'node="n{number % 20}",gpu="{number // 20}",uuid="GPU-{number}",pod="w{number}"'
    yield f"mlbench_gpu_utilization_ratio{{{gpu}}} {computes}"
    yield f"mlbench_gpu_memory_used_bytes{{{gpu}}} {3e10 + number * 1e6}"
    yield f"mlbench_gpu_memory_total_bytes{{{gpu}}} 8e10"
    yield f"mlbench_gpu_power_watts{{{gpu}}} {100 + 500 * computes}"


def _computes(number: int) -> float:
    """Return which part of a step a rank computes: the straggler twice as much as the others."""
    return 0.9 if number == STRAGGLER else 0.42 + number % 7 / 100


def _recorded(number: int, seconds: float) -> dict[str, float]:
    """Return what a rank records, besides the seconds of its phases."""
    learnt = 1 - math.exp(-seconds / 300)
    return {
        names.TRAIN_LOSS: 2.3 - 2.1 * learnt + number % 11 / 100,
        names.TRAIN_ACCURACY: 10 + 88 * learnt - number % 5 / 2,
        names.VAL_ACCURACY: 10 + 86 * learnt,
        names.LEARNING_RATE: 0.1,
        names.STEP: int(seconds / _STEP_SECONDS),
        names.EPOCH: int(seconds / 30),
        names.SAMPLES: int(seconds / _STEP_SECONDS) * 64,
        names.TRAIN_SECONDS: seconds,
    }
