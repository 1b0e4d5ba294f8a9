"""MLflow's tracking server with SQLite, as ``mlflow server`` starts it."""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks import servers
from benchmarks.load import post_json, send
from benchmarks.post_rate import CLIENTS
from benchmarks.read_rate import SAMPLES, SERIES
from benchmarks.rivals.contender import Contender, Kind
from benchmarks.servers import Source

_API = "/api/2.0/mlflow"
_POSTS_OF_A_CLIENT = 40
_BATCHES = 20
_STEPS_OF_A_BATCH = 1000 // SERIES
_OK = 200


@contextmanager
def running(folder: Path, programs: Path) -> Iterator[Contender]:
    """Run the server, with a run of 100,000 samples."""
    with serving(folder, programs) as port:
        full = _create_run(port)
        _log_batches(port, full, SAMPLES // SERIES // _STEPS_OF_A_BATCH)
        yield Contender(
            "MLflow",
            {
                Kind.SINGLE: lambda: _log_metrics(port, _create_run(port)),
                Kind.BATCH: lambda: _log_batches(port, _create_run(port), _BATCHES),
                Kind.READ: _reading(port, full),
            },
        )


@contextmanager
def serving(folder: Path, programs: Path) -> Iterator[int]:
    """Run the server, and give its port."""
    port = servers.free_port()
    command = [
        str(programs / "mlflow"),
        "server",
        f"--backend-store-uri=sqlite:///{folder / 'mlflow.db'}",
        f"--artifacts-destination={folder / 'artifacts'}",
        "--host=127.0.0.1",
        f"--port={port}",
    ]
    # It would look for more programs beside its own, and report its use.
    environ = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with servers.running("mlflow", command, folder, environ, f"http://127.0.0.1:{port}/health"):
        yield port


def _create_run(port: int) -> str:
    body = {"experiment_id": "0", "start_time": _now_ms()}
    answer = httpx.post(f"http://127.0.0.1:{port}{_API}/runs/create", json=body, trust_env=False)
    run_id: str = answer.raise_for_status().json()["run"]["info"]["run_id"]
    return run_id


def _log_metrics(port: int, run_id: str) -> float:
    now_ms = _now_ms()
    clients = [
        [
            post_json(
                f"{_API}/runs/log-metric",
                {
                    "run_id": run_id,
                    "key": f"train_loss_{client}",
                    "value": client + step / _POSTS_OF_A_CLIENT,
                    "timestamp": now_ms - 2 * (_POSTS_OF_A_CLIENT - step),
                    "step": step,
                },
                {},
            )
            for step in range(_POSTS_OF_A_CLIENT)
        ]
        for client in range(CLIENTS)
    ]
    return send(port, clients, _OK)


def _log_batches(port: int, run_id: str, batches: int) -> float:
    start_ms = _now_ms() - 100 * batches * _STEPS_OF_A_BATCH
    values = random.Random(0)  # noqa: S311 - the same values each time, not a secret
    requests = [
        post_json(
            f"{_API}/runs/log-batch",
            {
                "run_id": run_id,
                "metrics": [
                    {
                        "key": f"metric_{metric}",
                        "value": values.random(),
                        "timestamp": start_ms + 100 * step,
                        "step": step,
                    }
                    for step in range(batch * _STEPS_OF_A_BATCH, (batch + 1) * _STEPS_OF_A_BATCH)
                    for metric in range(SERIES)
                ],
            },
            {},
        )
        for batch in range(batches)
    ]
    return send(port, [requests], _OK) * _STEPS_OF_A_BATCH * SERIES


def _reading(port: int, run_id: str) -> Callable[[], float]:
    """Return what measures milliseconds for all metrics, each asked for as MLflow's client does."""
    source = Source(port, {})
    paths = [
        f"{_API}/metrics/get-history?run_id={run_id}&metric_key=metric_{metric}"
        for metric in range(SERIES)
    ]

    def once() -> float:
        answers = [source.get(path) for path in paths]
        found = sum(len(json.loads(answer.body)["metrics"]) for answer in answers)
        assert found == SAMPLES, f"{found} samples"
        return sum(answer.seconds for answer in answers) * 1000

    return once


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
