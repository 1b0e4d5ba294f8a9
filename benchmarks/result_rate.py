"""How long the master takes to evaluate runs: one with millions of losses, and fifteen beside."""

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Figure, Measure, alternate
from benchmarks.servers import Master, measured_master
from benchmarks.stored import line, store_delivered, store_run
from mlbench import names
from mlbench_master.models import Run

_EPOCHS = 100
_RANKS = 2
_LARGE_STEPS = 10_000
_SMALL_STEPS = 50
_SMALL_RUNS = 15
_STEP_SECONDS = 0.005


def measure(folder: Path) -> list[Figure]:
    """Return milliseconds until the last byte."""
    with measured_master(folder) as master:
        large = _store_run("large", _LARGE_STEPS)
        small = [_store_run(f"small-{i}", _SMALL_STEPS) for i in range(_SMALL_RUNS)]
        ids = ",".join(str(run.id) for run in small)
        paths = {
            _result_of(_LARGE_STEPS): f"/api/runs/{large.id}/result/",
            _result_of(_SMALL_STEPS): f"/api/runs/{small[0].id}/result/",
            f"{_SMALL_RUNS} such runs compared": f"/api/compare/?runs={ids}",
        }
        return alternate(7, "ms", {what: _asking(master, path) for what, path in paths.items()})


def _result_of(steps: int) -> str:
    return f"result of a run of {_RANKS * _EPOCHS * steps:,} steps"


def _store_run(name: str, steps: int) -> Run:
    """Return a run of 100 epochs, whose samples a running controller has delivered."""
    seconds = _EPOCHS * steps * _STEP_SECONDS
    run = store_run(name, num_workers=_RANKS, seconds=seconds)
    begin = time.time() - seconds
    return store_delivered(run, *(_lines(begin, steps) for _ in range(_RANKS)))


def _lines(started_at: float, steps: int) -> Iterator[bytes]:
    """Yield what a rank records: a loss a step; accuracy and totals an epoch."""
    goal = {"metric": names.VAL_ACCURACY, "value": 90.0}
    yield line(started_at, {}, goal=goal)
    for number in range(_EPOCHS * steps):
        moment = started_at + number * _STEP_SECONDS
        yield line(moment, {names.TRAIN_LOSS: 1 / (1 + number)})
        if (number + 1) % steps == 0:
            epoch = number // steps
            phases = {names.phase_metric(phase): 0.1 * (epoch + 1) for phase in names.PHASES}
            totals = {names.SAMPLES: 64 * number, names.TRAIN_SECONDS: 0.9 * (moment - started_at)}
            score = {names.VAL_ACCURACY: 95.0 * (1 - 0.9**epoch), names.EPOCH: epoch}
            yield line(moment + _STEP_SECONDS / 2, score | totals | phases)


def _asking(master: Master, path: str) -> Measure:
    """Return what measures milliseconds until the last byte of an answer that has the time."""

    def measure_once() -> float:
        answer = master.get(path)
        assert b'"training_seconds"' in answer.body, answer.body
        return answer.seconds * 1000

    return measure_once
