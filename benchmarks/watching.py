"""What watching a run of 200 workers costs Prometheus: its rules, and a dashboard's queries."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.servers import running_prometheus
from master.reading.promql import PrometheusClient
from mlbench import names
from mlbench.assets import prometheus_folder
from tests.grafana.asking import Grafana, View
from tests.grafana.dashboards import load_all

WORKERS = 200
_STEP_SECONDS = 0.1
_BUCKETS = ("0.05", "0.1", "0.25", "+Inf")
# What each rank records, besides the seconds of its phases.
_RECORDED = (
    names.TRAIN_LOSS,
    names.TRAIN_ACCURACY,
    names.VAL_ACCURACY,
    names.LEARNING_RATE,
    names.STEP,
    names.EPOCH,
    names.SAMPLES,
    names.TRAIN_SECONDS,
)
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
    """Return how long it takes to ask everything that a dashboard asks, one after the other."""
    [board] = [board for board in load_all() if board.uid == uid]
    values = []
    for _ in range(_TIMES):
        grafana = Grafana(prometheus, View("watched", began, time.time(), "1"))
        begin = time.perf_counter()
        queries = [query for query in grafana.queries(board) if query.options is None]
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
    for phase in names.PHASES:
        yield f'{names.WORKER_PHASE_SECONDS}{{{rank},phase="{phase}"}} {seconds / 7}'
    recorded = [*_RECORDED, *(names.phase_metric(phase) for phase in names.PHASES)]
    for metric in recorded:
        yield f'{names.RUN_METRIC}{{{rank},metric="{metric}"}} {seconds}'
    container = f'namespace="n",pod="w{number}",container="worker",node="n{number % 20}"'
    for what in ("cpu_usage_seconds", "network_receive_bytes", "network_transmit_bytes"):
        yield f"container_{what}_total{{{container}}} {seconds}"
    for what in ("memory_working_set_bytes", "threads"):
        yield f"container_{what}{{{container}}} {seconds}"
