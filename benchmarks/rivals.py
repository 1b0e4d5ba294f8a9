"""The API compared with MLflow's tracking server with SQLite."""

import json
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks import servers
from benchmarks.api import CLIENTS, SAMPLES, SERIES, posts, reading, store_long_run
from benchmarks.load import post_json, send
from benchmarks.measure import Figure, Measure, Ratio, alternate
from benchmarks.servers import Source, measured_master

_REPOSITORY = Path(__file__).parents[1]
_ROUNDS = 5
_API = "/api/2.0/mlflow"
_POSTS_OF_A_CLIENT = 40
_BATCHES = 20
_STEPS_OF_A_BATCH = 1000 // SERIES
_OK = 200


def measure(folder: Path) -> Iterator[Figure | Ratio]:
    """Yield for each kind of request our figures, MLflow's, and how many times as fast we are."""
    with measured_master(folder) as master, serving_mlflow(folder) as port:
        full = _create_run(port)
        _log_batches(port, full, SAMPLES // SERIES // _STEPS_OF_A_BATCH)
        path = f"/api/metrics/{store_long_run().id}/?metric_type=run&format=json"
        yield from _compare(
            "one sample a request, 8 clients",
            "posts/s",
            posts(master, 250),
            lambda: _log_metrics(port, _create_run(port)),
        )
        yield from _compare(
            "1,000 samples a request, 1 client",
            "samples/s",
            posts(master, 2500, lists=True),
            lambda: _log_batches(port, _create_run(port), _BATCHES),
        )
        name = "read a run's 100,000 samples"
        yield from _compare(name, "ms", reading(master, path), lambda: _read(port, full))


def _compare(name: str, unit: str, ours: Measure, theirs: Measure) -> Iterator[Figure | Ratio]:
    own, other = alternate(_ROUNDS, unit, {f"{name}: ours": ours, f"{name}: MLflow": theirs})
    speedup = other.median / own.median
    yield from (own, other)
    yield Ratio(f"{name}: as fast as MLflow", speedup if unit == "ms" else 1 / speedup)


@contextmanager
def serving_mlflow(folder: Path) -> Iterator[int]:
    """Run MLflow's server, which is installed the first time, and give its port."""
    program = subprocess.check_output([_REPOSITORY / "scripts" / "get-mlflow.sh"], text=True)
    port = servers.free_port()
    command = [
        *(program.strip(), "server", "--host=127.0.0.1", f"--port={port}"),
        f"--backend-store-uri=sqlite:///{folder / 'mlflow.db'}",
        f"--artifacts-destination={folder / 'artifacts'}",
    ]
    # Otherwise it would look for more programs in its folder, and report its use.
    environ = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with servers.running("mlflow", command, folder, environ, f"http://127.0.0.1:{port}/health"):
        yield port


def _create_run(port: int) -> str:
    body = {"experiment_id": "0", "start_time": _now_ms()}
    answer = httpx.post(f"http://127.0.0.1:{port}{_API}/runs/create", json=body, trust_env=False)
    run_id: str = answer.raise_for_status().json()["run"]["info"]["run_id"]
    return run_id


def _log_metrics(port: int, run_id: str) -> float:
    begin_ms = _now_ms() - 2 * _POSTS_OF_A_CLIENT

    def request(client: int, step: int) -> bytes:
        metric = _metric(f"train_loss_{client}", client + step, begin_ms + 2 * step, step)
        return post_json(f"{_API}/runs/log-metric", {"run_id": run_id, **metric}, {})

    steps = range(_POSTS_OF_A_CLIENT)
    clients = [[request(client, step) for step in steps] for client in range(CLIENTS)]
    return send(port, clients, _OK)


def _log_batches(port: int, run_id: str, batches: int) -> float:
    begin_ms = _now_ms() - 100 * batches * _STEPS_OF_A_BATCH
    values = random.Random(0)  # noqa: S311 - the same values each time, not a secret
    requests = []
    for batch in range(batches):
        metrics = [
            _metric(f"metric_{metric}", values.random(), begin_ms + 100 * step, step)
            for step in range(batch * _STEPS_OF_A_BATCH, (batch + 1) * _STEPS_OF_A_BATCH)
            for metric in range(SERIES)
        ]
        body = {"run_id": run_id, "metrics": metrics}
        requests.append(post_json(f"{_API}/runs/log-batch", body, {}))
    return send(port, [requests], _OK) * _STEPS_OF_A_BATCH * SERIES


def _metric(key: str, value: float, timestamp: int, step: int) -> dict[str, object]:
    return {"key": key, "value": value, "timestamp": timestamp, "step": step}


def _read(port: int, run_id: str) -> float:
    """Return milliseconds for all metrics, each asked for as MLflow's client does."""
    path = f"{_API}/metrics/get-history?run_id={run_id}&metric_key=metric_"
    answers = [Source(port, {}).get(f"{path}{metric}") for metric in range(SERIES)]
    samples = sum(len(json.loads(answer.body)["metrics"]) for answer in answers)
    assert samples == SAMPLES, f"{samples} samples"
    return sum(answer.seconds for answer in answers) * 1000


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
