"""How long the master takes to evaluate runs: one with millions of losses, and fifteen beside."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Figure, alternate
from benchmarks.runs import append, store_run, wait_until_delivered
from benchmarks.servers import Master, database_url, running_master, running_prometheus
from mlbench import names
from mlbench_master.models import Run, open_database

_EPOCHS = 100
_RANKS = 2
_LARGE_STEPS = 10_000
_SMALL_STEPS = 50
_SMALL_RUNS = 15
_STEP_SECONDS = 0.005
_ROUNDS = 7


def measure(folder: Path) -> list[Figure]:
    """Return milliseconds until the last byte."""
    database = open_database(database_url(folder))
    with (
        running_prometheus(folder) as prometheus_url,
        running_master(folder, prometheus_url) as master,
    ):
        large = _store_run("large", _LARGE_STEPS)
        small = [_store_run(f"small-{i}", _SMALL_STEPS) for i in range(_SMALL_RUNS)]
        ids = ",".join(str(run.id) for run in small)
        figures = alternate(
            _ROUNDS,
            [
                (
                    f"result of a run of {_RANKS * _EPOCHS * _LARGE_STEPS:,} steps",
                    "ms",
                    _asking(master, f"/api/runs/{large.id}/result/"),
                ),
                (
                    f"result of a run of {_RANKS * _EPOCHS * _SMALL_STEPS:,} steps",
                    "ms",
                    _asking(master, f"/api/runs/{small[0].id}/result/"),
                ),
                (
                    f"{_SMALL_RUNS} such runs compared",
                    "ms",
                    _asking(master, f"/api/compare/?runs={ids}"),
                ),
            ],
        )
    database.close()
    return figures


def _store_run(name: str, steps: int) -> Run:
    """Return a run of 100 epochs, whose samples a running controller has delivered."""
    run = store_run(name)
    seconds = _EPOCHS * steps * _STEP_SECONDS
    run.started_at = time.time() - seconds
    run.finished_at = time.time()
    run.num_workers = _RANKS
    run.save()
    for rank in range(_RANKS):
        append(run, rank, _lines(run.started_at, steps))
    wait_until_delivered(run)
    return run


def _lines(started_at: float, steps: int) -> Iterator[bytes]:
    """Yield what a rank records: a loss a step; accuracy and totals an epoch."""
    goal = {"metric": names.VAL_ACCURACY, "value": 90.0}
    yield _line(started_at, goal=goal)
    for number in range(_EPOCHS * steps):
        moment = started_at + number * _STEP_SECONDS
        yield _line(moment, metrics={names.TRAIN_LOSS: 1 / (1 + number)})
        if (number + 1) % steps == 0:
            epoch = number // steps
            phases = {names.phase_metric(phase): 0.1 * (epoch + 1) for phase in names.PHASES}
            totals = {names.SAMPLES: 64 * number, names.TRAIN_SECONDS: 0.9 * (moment - started_at)}
            score = {names.VAL_ACCURACY: 95.0 * (1 - 0.9**epoch), names.EPOCH: epoch}
            yield _line(moment + _STEP_SECONDS / 2, metrics=score | totals | phases)


def _line(moment: float, **fields: object) -> bytes:
    return json.dumps({"time": round(moment, 6), **fields}).encode() + b"\n"


def _asking(master: Master, path: str) -> Callable[[], float]:
    """Return what measures milliseconds until the last byte of an answer that has the time."""

    def once() -> float:
        answer = master.source.get(path)
        assert b'"training_seconds"' in answer.body, answer.body
        return answer.seconds * 1000

    return once
