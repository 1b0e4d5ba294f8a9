"""Logistic regression on 2,000 features: samples/s, what recording costs, and parsing MB/s."""

import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_svmlight_file
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.measure import Figure, alternate
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
    with Tracker(_run_environ(folder)) as inside, Tracker({}) as outside:
        return [
            *alternate(
                _TIMES,
                [
                    ("our loop, in a run", "samples/s", _ours(values, labels, inside)),
                    ("our loop, outside a run", "samples/s", _ours(values, labels, outside)),
                    ("plain slices and autograd", "samples/s", _slices(values, labels)),
                    ("DataLoader and autograd", "samples/s", _loader(values, labels)),
                ],
            ),
            *alternate(
                _TIMES,
                [
                    ("recording in our loop, in a run", "µs/step", _recording(inside)),
                    ("recording in our loop, outside a run", "µs/step", _recording(outside)),
                ],
            ),
            *_parsing(folder),
        ]


def _run_environ(folder: Path) -> dict[str, str]:
    return {
        names.ENV_METRICS_FILE: str(folder / "metrics.jsonl"),
        names.ENV_MULTIPROC_DIR: str(folder),
        names.ENV_RUN_ID: "1",
    }


def _ours(values: torch.Tensor, labels: torch.Tensor, tracker: Tracker) -> Callable[[], float]:
    samples = Samples(DenseRows(values), labels)
    data = Dataset(samples, samples[:0], features=_FEATURES, largest_norm2=1.0, sha256="")
    execution = set_up(DeviceOptions(device="cpu"), World())
    session = Session(World(), tracker, execution)
    training = Training(LinearOptions(), data, torch.zeros(_FEATURES), session)

    def once() -> float:
        begin = time.perf_counter()
        training.epoch(0)
        return _STEPS * _BATCH / (time.perf_counter() - begin)

    return once


def _slices(values: torch.Tensor, labels: torch.Tensor) -> Callable[[], float]:
    def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
        return list(zip(torch.split(values, _BATCH), torch.split(labels, _BATCH), strict=True))[
            :_SLOW_STEPS
        ]

    return lambda: _autograd(batches())


def _loader(values: torch.Tensor, labels: torch.Tensor) -> Callable[[], float]:
    rows = _SLOW_STEPS * _BATCH
    dataset = TensorDataset(values[:rows], labels[:rows])
    return lambda: _autograd(DataLoader(dataset, batch_size=_BATCH, shuffle=True))


def _autograd(batches: "list[tuple[torch.Tensor, torch.Tensor]] | DataLoader[object]") -> float:
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


def _recording(tracker: Tracker) -> Callable[[], float]:
    """Return what measures all that the loop asks of the tracker, and nothing else of the loop."""
    every = LinearOptions().record_every

    def once() -> float:
        begin = time.perf_counter()
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
                    tracker.log(
                        {names.TRAIN_LOSS: 0.3123456789, names.LEARNING_RATE: 3.9},
                        step=tracker.steps,
                    )
        return (time.perf_counter() - begin) / _STEPS * 1e6

    return once


def _parsing(folder: Path) -> list[Figure]:
    random = np.random.default_rng(0)
    line = "1 " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(random.normal(size=_FEATURES)))
    text = (line + "\n").encode() * _LINES
    megabytes = len(text) / 1e6
    source = folder / "dense"
    source.write_bytes(text)

    def ours() -> float:
        os.utime(source)  # as if it had changed, so that it is parsed
        begin = time.perf_counter()
        open_table(source)
        return megabytes / (time.perf_counter() - begin)

    def alone() -> float:
        begin = time.perf_counter()
        load_svmlight_file(io.BytesIO(text), dtype=np.float32, zero_based=False)
        return megabytes / (time.perf_counter() - begin)

    return alternate(
        3,
        [
            ("our parser, file to files, start of processes included", "MB/s", ours),
            ("load_svmlight_file alone, memory to memory", "MB/s", alone),
        ],
    )
