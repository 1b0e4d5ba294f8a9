"""Logistic regression on 2,000 features: samples/s, what recording costs, and parsing MB/s."""

import io
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_svmlight_file
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.loops import run_environ
from benchmarks.measure import Figure, Measure, alternate, timed
from mlbench import Tracker, names
from mlbench.options import DeviceOptions
from mlbench.tasks import LinearOptions
from mlbench_worker.data.libsvm.dataset import Dataset, Samples
from mlbench_worker.data.libsvm.rows import DenseRows
from mlbench_worker.data.libsvm.table import open_table
from mlbench_worker.ranks.distributed import World, set_up
from mlbench_worker.tasks.linear import Training
from mlbench_worker.training.session import Session

_FEATURES = 2000
_BATCH = 100
_STEPS = 1000
_SLOW_STEPS = 200
_TIMES = 7
_LINES = 8000


def measure(folder: Path) -> list[Figure]:
    """Return training rates, on the same data side by side, and parsing rates."""
    torch.set_num_threads(2)
    # prometheus-client looks for it when it is imported, which the first tracker does.
    os.environ[names.ENV_MULTIPROC_DIR] = str(folder)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(_STEPS * _BATCH, _FEATURES, generator=generator)
    values /= values.norm(dim=1, keepdim=True)
    labels = torch.randn(len(values), generator=generator).sign()
    slow = slice(_SLOW_STEPS * _BATCH)
    dataset = TensorDataset(values[slow], labels[slow])
    pairs = list(
        zip(torch.split(values[slow], _BATCH), torch.split(labels[slow], _BATCH), strict=True)
    )
    with Tracker(run_environ(folder)) as inside, Tracker({}) as outside:
        loops = {
            "our loop, in a run": _ours(values, labels, inside),
            "our loop, outside a run": _ours(values, labels, outside),
            "plain slices and autograd": lambda: _autograd(pairs),
            "DataLoader and autograd": lambda: _autograd(
                DataLoader(dataset, batch_size=_BATCH, shuffle=True)
            ),
        }
        recording = {
            "recording in our loop, in a run": _recording(inside),
            "recording in our loop, outside a run": _recording(outside),
        }
        return [
            *alternate(_TIMES, "samples/s", loops),
            *alternate(_TIMES, "µs/step", recording),
            *_parsing(folder),
        ]


def _ours(values: torch.Tensor, labels: torch.Tensor, tracker: Tracker) -> Measure:
    samples = Samples(DenseRows(values), labels)
    data = Dataset(samples, samples[:0], features=_FEATURES, largest_norm2=1.0, sha256="")
    execution = set_up(DeviceOptions(device="cpu"), World())
    session = Session(World(), tracker, execution)
    training = Training(LinearOptions(), data, torch.zeros(_FEATURES), session)
    return lambda: _STEPS * _BATCH / timed(lambda: training.epoch(0))


def _autograd(batches: Iterable[Any]) -> float:
    """Train as one would write it without more ado, and return samples/s."""
    model = torch.nn.Linear(_FEATURES, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=16.0, weight_decay=1e-6)
    begin = time.perf_counter()
    for rows, labels in batches:
        optimizer.zero_grad()
        loss = functional.softplus(-labels * model(rows).squeeze(1)).mean()
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch states no types
        optimizer.step()
    return _SLOW_STEPS * _BATCH / (time.perf_counter() - begin)


def _recording(tracker: Tracker) -> Measure:
    """Return what measures all that the loop asks of the tracker, and nothing else of the loop."""
    every = LinearOptions().record_every

    def record() -> None:
        for step in range(_STEPS):
            with tracker.phase("forward"):
                pass
            with tracker.phase("backward"):
                pass
            with tracker.phase("communication"):
                pass
            with tracker.phase("optimizer"):
                pass
            tracker.step(samples=_BATCH)
            if step % every == 0:
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
