"""Predictions of ``mlbench whatif``, compared with runs in which the change was made.

The trainings sleep instead of computing, so that four workers do not need four cores.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.stacks import local_stack, run_to_end
from mlbench.contract import names

_SCRIPT = Path(__file__).with_name("planted_training.py")
_MBIT = 50
_SIZES = (2, 3, 4)
_EXCHANGE = {"values": 100_000, "steps": 100}


@dataclass(frozen=True)
class Training:
    """A run: its workers, settings of ``planted_training``, and bandwidth in Mbit/s."""

    workers: int
    settings: Mapping[str, object] = field(default_factory=dict)
    bandwidth: float | None = None


_TRAININGS = {
    "2 ranks": Training(2),
    "3 ranks": Training(3),
    "data": Training(2, {"data": 30}),
    "uneven data": Training(3, {"data": 30, "varies": 1}),
    "late": Training(3, {"late": 60}),
    **{f"exchange {n}": Training(n, _EXCHANGE) for n in _SIZES},
    **{f"limited {n}": Training(n, _EXCHANGE, _MBIT) for n in _SIZES},
}
_CHANGES = (
    ("data", "--free=data", "2 ranks"),
    ("uneven data", "--free=data", "3 ranks"),
    ("late", "--without=rank:1", "3 ranks"),
    *((f"exchange {n}", f"--bandwidth={_MBIT}", f"limited {n}") for n in _SIZES),
    *((f"limited {n}", f"--workers={m}", f"limited {m}") for n, m in permutations(_SIZES, 2)),
)
"""A training, the change that is predicted of it, and the training with this change."""


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the errors of the predicted step times, and how many are outside their intervals."""
    errors, outside = [], 0
    with local_stack(folder, workers=max(_SIZES)) as (home, client):
        environ = {**os.environ, names.ENV_HOME: str(home.root)}
        runs = {}
        for name, training in _TRAININGS.items():
            words = " ".join(f"{key}={value}" for key, value in training.settings.items())
            runs[name] = run_to_end(
                client,
                training.workers,
                command=f"{sys.executable} {_SCRIPT} {words}",
                look_seconds=1.0,
                max_bandwidth=training.bandwidth,
            ).id
        for before, change, after in _CHANGES:
            call = [sys.executable, "-m", "mlbench", "whatif", str(runs[before]), change, "--json"]
            output = subprocess.run(call, env=environ, stdout=subprocess.PIPE, check=True).stdout
            predicted = json.loads(output)["predicted"]
            step_seconds = client.get_result(runs[after]).result().value.step_seconds
            assert step_seconds is not None
            errors.append(100 * (predicted["seconds"] / step_seconds - 1))
            outside += not predicted["low"] <= step_seconds <= predicted["high"]
            text = ", ".join(f"{name} {1000 * predicted[name]:.1f}" for name in ("low", "high"))
            print(
                f"  {before} {change}: {1000 * predicted['seconds']:.1f} ms predicted ({text}), "
                f"{1000 * step_seconds:.1f} ms measured: {errors[-1]:+.1f} %",
                flush=True,
            )
    yield Figure(f"predictions outside of their interval, of {len(_CHANGES)}", "", [outside])
    yield Figure("error of the predicted step time, absolute", "%", [abs(e) for e in errors])
