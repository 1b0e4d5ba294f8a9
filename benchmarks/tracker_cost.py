"""Cost of a tracker call in a training step, compared with code written by hand."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Figure, Measure, alternate, cost
from mlbench import Tracker
from mlbench.contract import names

_CALLS = 20_000
_LOSS = 0.3123456789
_FOUR = {"train_loss": 0.3123, "learning_rate": 0.1, "grad_norm": 1.234, "accuracy": 97.5}


def measure(folder: Path) -> list[Figure]:
    """Return microseconds per recorded value."""
    inside, outside = Tracker({names.ENV_METRICS_FILE: str(folder / "metrics.jsonl")}), Tracker({})
    with (folder / "by-hand.jsonl").open("ab", buffering=0) as file, inside:

        def by_hand(step: int) -> None:
            fields = {"time": time.time(), "step": step, "metrics": {"train_loss": _LOSS}}
            os.write(file.fileno(), (json.dumps(fields) + "\n").encode())

        def phase(_: int) -> None:
            with inside.phase("forward"):
                pass

        measures = {
            "tracker.log(loss)": _cost(lambda _: inside.log(train_loss=_LOSS)),
            "tracker.log(loss, step=…): two values": _cost(
                lambda step: inside.log(train_loss=_LOSS, step=step), values=2
            ),
            "tracker.log(four metrics, step=…): five values": _cost(
                lambda step: inside.log(_FOUR, step=step), values=5
            ),
            "by hand: json.dumps and write, two values": _cost(by_hand, values=2),
            "tracker.log outside a run, a call": _cost(
                lambda step: outside.log(train_loss=_LOSS, step=step)
            ),
            "with tracker.phase(...), a block": _cost(phase),
            "nothing: the measuring loop itself": _cost(lambda _: None),
        }
        return alternate(9, "µs/value", measures)


def _cost(call: Callable[[int], object], values: int = 1) -> Measure:
    measure_call = cost(_CALLS, call)
    return lambda: measure_call() / values
