"""Training loops in separate processes, which train on request and return their speed."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.measure import Figure, alternate, timed
from mlbench import Tracker
from mlbench.benchmarks.task_options import DeviceOptions
from mlbench.contract import names
from mlbench_worker.ranks.distributed import World, set_up
from mlbench_worker.training.session import Session

_ROUNDS = 7

Train = Callable[[], object]
Loop = tuple[Train, int]
"""Trains some steps; and the samples in these."""
Loops = Mapping[str, Callable[[Path], Loop]]
"""Functions that make a loop, which may write into a folder, by name."""

_loops: list[Loop] = []
"""The loop of this process."""


def rates(loops: Loops, unit: str, folder: Path) -> list[Figure]:
    """Return samples per second of loops, each in a separate process, measured in turn."""
    with ExitStack() as stack:
        measures = {}
        for number, (name, make) in enumerate(loops.items()):
            loop_folder = folder / str(number)
            loop_folder.mkdir()
            pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
            stack.enter_context(pool).submit(_make, make, loop_folder).result()
            measures[name] = lambda pool=pool: pool.submit(_speed).result()
        return alternate(_ROUNDS, unit, measures)


def _make(make: Callable[[Path], Loop], folder: Path) -> None:
    _loops.append(make(folder))


def _speed() -> float:
    [(train, samples)] = _loops
    return samples / timed(train)


def tracker_of_a_run(folder: Path) -> Tracker:
    """Return a tracker that records all that a run does."""
    environ = {
        names.ENV_METRICS_FILE: str(folder / "metrics.jsonl"),
        names.ENV_RUN_ID: "1",
        names.ENV_RANK: "0",
    }
    return Tracker(environ)


def session(options: DeviceOptions, tracker: Tracker, world: World | None = None) -> Session:
    """Return the session of a rank, by default of the only one."""
    world = world or World()
    return Session(world, tracker, set_up(options, world))


def plain_training(
    model: nn.Module,
    optimizer: Any,
    batches: Iterable[Any],
    loss_of: Callable[[Any], torch.Tensor],
    clip: float | None = None,
) -> Train:
    """Return the training of some batches, written down plainly in PyTorch."""

    def train() -> None:
        model.train()
        for batch in batches:
            optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch states no types
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            loss.item()

    return train
