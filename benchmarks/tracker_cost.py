"""What a call of the tracker costs a training step, beside what one would write by hand."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Figure, alternate
from mlbench import Tracker, names

_CALLS = 20_000


def measure(folder: Path) -> list[Figure]:
    """Return microseconds per recorded value."""
    environ = {names.ENV_METRICS_FILE: str(folder / "metrics.jsonl")}
    tracker = Tracker(environ)
    outside = Tracker({})
    with (folder / "by-hand.jsonl").open("ab", buffering=0) as file:
        figures = alternate(
            9,
            [
                ("tracker.log(loss)", "µs/value", _cost(lambda _: _log_loss(tracker))),
                (
                    "tracker.log(loss, step=…): two values",
                    "µs/value",
                    _cost(lambda i: _log_step(tracker, i), values=2),
                ),
                (
                    "tracker.log(four metrics, step=…): five values",
                    "µs/value",
                    _cost(lambda i: _log_four(tracker, i), values=5),
                ),
                (
                    "by hand: json.dumps and write, two values",
                    "µs/value",
                    _cost(lambda i: _by_hand(file.fileno(), i), values=2),
                ),
                ("tracker.log outside a run", "µs/call", _cost(lambda i: _log_step(outside, i))),
                ("with tracker.phase(...)", "µs/block", _cost(lambda _: _phase(tracker))),
                ("nothing: the measuring loop itself", "µs/call", _cost(lambda _: None)),
            ],
        )
    tracker.close()
    return figures


def _log_loss(tracker: Tracker) -> None:
    tracker.log(train_loss=0.3123456789)


def _log_step(tracker: Tracker, step: int) -> None:
    tracker.log(train_loss=0.3123456789, step=step)


def _log_four(tracker: Tracker, step: int) -> None:
    tracker.log(train_loss=0.3123, learning_rate=0.1, grad_norm=1.234, accuracy=97.5, step=step)


def _by_hand(file: int, step: int) -> None:
    fields = {"time": time.time(), "step": step, "metrics": {"train_loss": 0.3123456789}}
    os.write(file, (json.dumps(fields) + "\n").encode())


def _phase(tracker: Tracker) -> None:
    with tracker.phase("forward"):
        pass


def _cost(call: Callable[[int], None], values: int = 1) -> Callable[[], float]:
    def once() -> float:
        begin = time.perf_counter()
        for i in range(_CALLS):
            call(i)
        return (time.perf_counter() - begin) / _CALLS / values * 1e6

    return once
