"""Logistic regression on 2,000 features: samples/s, what recording costs, and parsing MB/s."""

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_svmlight_file
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.loops import plain_training, session, tracker_of_a_run
from benchmarks.measure import Figure, Measure, alternate, timed
from mlbench import Tracker
from mlbench.benchmarks.task_options import DeviceOptions
from mlbench.benchmarks.tasks import LinearOptions
from mlbench.contract import names
from mlbench.contract.names import Phase
from mlbench_worker.data.libsvm.dataset import Dataset
from mlbench_worker.data.libsvm.row_blocks import DenseRows, SparseSamples
from mlbench_worker.data.libsvm.table import open_table
from mlbench_worker.tasks.linear import Training

_FEATURES = 2000
_BATCH = 100
_STEPS, _SLOW_STEPS = 1000, 200
_TIMES = 7
_LINES = 8000
_PHASES: tuple[Phase, ...] = ("forward", "backward", "communication", "optimizer")


def measure(folder: Path) -> list[Figure]:
    """Return training rates, on the same data in turn, what recording costs, and parsing rates."""
    torch.set_num_threads(2)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(_STEPS * _BATCH, _FEATURES, generator=generator)
    values /= values.norm(dim=1, keepdim=True)
    labels = torch.randn(len(values), generator=generator).sign()
    fewer = TensorDataset(*(tensor[: _SLOW_STEPS * _BATCH] for tensor in (values, labels)))
    slices = list(zip(*(torch.split(tensor, _BATCH) for tensor in fewer.tensors), strict=True))
    with tracker_of_a_run(folder) as tracker:
        loops = {
            "our loop, in a run": _ours(values, labels, tracker),
            "our loop, outside a run": _ours(values, labels, Tracker({})),
            "plain slices and autograd": _autograd(slices),
            "DataLoader and autograd": _autograd(DataLoader(fewer, _BATCH, shuffle=True)),
        }
        recording = {"recording in our loop, in a run": _recording(tracker)}
        return [
            *alternate(_TIMES, "samples/s", loops),
            *alternate(_TIMES, "µs/step", recording),
            *_parsing(folder),
        ]


def _ours(values: torch.Tensor, labels: torch.Tensor, tracker: Tracker) -> Measure:
    samples = SparseSamples(DenseRows(values), labels)
    data = Dataset(samples, samples[:0], features=_FEATURES, largest_norm2=1.0, sha256="")
    rank = session(DeviceOptions(device="cpu"), tracker)
    training = Training(LinearOptions(), data, torch.zeros(_FEATURES), rank)

    def train() -> None:
        training.epoch(0)
        rank.progress.end_epoch()

    return lambda: _STEPS * _BATCH / timed(train)


def _autograd(batches: Iterable[Any]) -> Measure:
    """Return what trains as one would write it without more ado."""
    model = torch.nn.Linear(_FEATURES, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=16.0, weight_decay=1e-6)

    def loss(batch: Any) -> torch.Tensor:
        rows, labels = batch
        return functional.softplus(-labels * model(rows).squeeze(1)).mean()

    train = plain_training(model, optimizer, batches, loss)
    return lambda: _SLOW_STEPS * _BATCH / timed(train)


def _recording(tracker: Tracker) -> Measure:
    """Return what measures all that the loop asks of the tracker, and nothing else of the loop."""
    interval = LinearOptions().record_every

    def record() -> None:
        for step in range(_STEPS):
            for phase in _PHASES:
                with tracker.phase(phase):
                    pass
            tracker.step(samples=_BATCH)
            if step % interval == 0:
                with tracker.phase("metrics"):
                    metrics = {names.TRAIN_LOSS: 0.3123456789, names.LEARNING_RATE: 3.9}
                    tracker.log(metrics, step=tracker.steps)

    return lambda: timed(record) / _STEPS * 1e6


def _parsing(folder: Path) -> list[Figure]:
    random = np.random.default_rng(0)
    line = "1 " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(random.normal(size=_FEATURES)))
    text = (line + "\n").encode() * _LINES
    megabytes = len(text) / 1e6
    source = folder / "dense"
    source.write_bytes(text)

    def ours() -> float:
        os.utime(source)  # as if it had changed, so that it is parsed
        return megabytes / timed(lambda: open_table(source))

    def alone() -> float:
        options = {"dtype": np.float32, "zero_based": False}
        return megabytes / timed(lambda: load_svmlight_file(io.BytesIO(text), **options))

    measures = {
        "our parser, file to files, start of processes included": ours,
        "load_svmlight_file alone, memory to memory": alone,
    }
    return alternate(3, "MB/s", measures)
