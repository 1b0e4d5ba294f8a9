"""What our instrumentation of a training step costs: phases, recorded values, scraped totals."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import nn

from benchmarks.loops import Loop, Loops, rates, run_environ
from benchmarks.measure import Figure
from mlbench import Tracker
from mlbench.names import Phase
from mlbench.options import ExchangeOptions, ImageModelOptions
from mlbench.recorder import Value
from mlbench_worker.data.images import Images
from mlbench_worker.ranks.distributed import World, set_up
from mlbench_worker.training.images import ImageTrainer
from mlbench_worker.training.session import Session

_STEPS = 1000


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
    return [
        Figure(figure.what, "µs", [1e6 / rate for rate in figure.values])
        for figure in rates(__name__, LOOPS, "steps/s", folder)
    ]


def _loop(session_class: type[Session], tracker_class: type[Tracker], folder: Path) -> Loop:
    world, tracker = World(), tracker_class(run_environ(folder))
    execution = set_up(ImageModelOptions(device="cpu", channels_last=False), world)
    session = session_class(world, tracker, execution)
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2))
    optimizer = torch.optim.SGD(model.parameters(), fused=True)
    trainer = ImageTrainer(session, model, optimizer, lambda step: 0.1, ExchangeOptions())
    batches = [Images(torch.zeros(2, 1, 1, 1), torch.tensor([0, 1]))] * _STEPS
    return lambda: trainer.train(batches, 2), _STEPS


LOOPS: Loops = {
    "a step of the loop around a tiny model": partial(_loop, Session, Tracker),
    "the same without our instrumentation": partial(_loop, _Uninstrumented, _Silent),
}
