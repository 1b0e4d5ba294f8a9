"""What our instrumentation of a training step costs: phases, recorded values, scraped totals."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from benchmarks.loops import run_environ
from benchmarks.measure import Figure, alternate
from mlbench import Tracker, names
from mlbench.names import Phase
from mlbench.options import ExchangeOptions, ImageModelOptions
from mlbench.recorder import Value
from mlbench_worker.data.images import Images
from mlbench_worker.ranks.distributed import World, set_up
from mlbench_worker.training.images import ImageTrainer
from mlbench_worker.training.session import Session

_STEPS = 1000
_ROUNDS = 9


class _Uninstrumented(Session):
    """Does not look at the clock."""

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Do nothing more."""
        yield


class _Silent(Tracker):
    """Records nothing."""

    def step(self, samples: int, **metrics: Value) -> None:
        """Forget the step."""


def measure(folder: Path) -> list[Figure]:
    """Return µs a step of the image tasks' loop around a tiny model, with and without."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.step_cost", str(folder)],
        # prometheus-client looks at it when it is imported.
        env={**os.environ, names.ENV_MULTIPROC_DIR: str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [Figure(what, "µs", values) for what, values in json.loads(done.stdout).items()]


def main() -> None:
    """Measure and print as JSON."""
    environ = run_environ(Path(sys.argv[1]))
    figures = alternate(
        _ROUNDS,
        [
            ("a step of the loop around a tiny model", "µs", _loop(Session, Tracker, environ)),
            (
                "the same without our instrumentation",
                "µs",
                _loop(_Uninstrumented, _Silent, environ),
            ),
        ],
    )
    print(json.dumps({figure.what: figure.values for figure in figures}))


def _loop(
    kind: type[Session], tracker_kind: type[Tracker], environ: Mapping[str, str]
) -> Callable[[], float]:
    world, tracker = World(), tracker_kind(environ)
    execution = set_up(ImageModelOptions(device="cpu", channels_last=False), world)
    session = kind(world, tracker, execution)
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2))
    optimizer = torch.optim.SGD(model.parameters(), fused=True)
    trainer = ImageTrainer(session, model, optimizer, lambda step: 0.1, ExchangeOptions())
    batches = [Images(torch.zeros(2, 1, 1, 1), torch.tensor([0, 1]))] * _STEPS

    def measure_once() -> float:
        begin = time.perf_counter()
        trainer.train(batches, 2)
        return (time.perf_counter() - begin) / _STEPS * 1e6

    return measure_once


if __name__ == "__main__":
    main()
