"""Distance of the linear tasks from scikit-learn's optimum, on your data set.

``python -m benchmarks.linear_optimum a9a epochs=2000`` trains each model on the data set as the
task reads it, with all rows in a step. It compares the objective (mean loss plus penalty) with the
objective at scikit-learn's solution. The penalty is LIBLINEAR's default, 1 / rows.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from benchmarks.loops import session
from mlbench import Tracker
from mlbench.benchmarks.options import read
from mlbench.benchmarks.tasks import LinearModel, LinearOptions
from mlbench.contract import names
from mlbench_worker.data.libsvm.dataset import Dataset, load_dataset
from mlbench_worker.data.libsvm.row_blocks import DenseRows, SparseSamples
from mlbench_worker.tasks.linear import LOSSES, Training

_SETTINGS = {"decay": "0", "momentum": "0.995", "epochs": "4000"}

_SOLVERS: dict[LinearModel, Callable[[float], Any]] = {
    # The penalty is l2 times rows, because scikit-learn's objectives are sums over the rows.
    "logistic": lambda penalty: LogisticRegression(
        C=1 / penalty, fit_intercept=False, solver="newton-cholesky", tol=1e-10, max_iter=1000
    ),
    "ridge": lambda penalty: Ridge(alpha=penalty, fit_intercept=False, solver="cholesky"),
    "svm": lambda penalty: LinearSVC(
        C=1 / penalty, fit_intercept=False, dual=False, tol=1e-10, max_iter=10_000
    ),
}


def main() -> None:
    """Print a line for each model."""
    name, *settings = sys.argv[1:]
    more = dict(setting.split("=", 1) for setting in settings)
    for model in LOSSES:
        data = load_dataset(name, Path(os.environ[names.ENV_DATASETS]), classes=model != "ridge")
        ours, optimum = ours_and_the_optimum(model, data, more)
        title = f"{name}, {len(data.train)} rows of {data.features}, {model}"
        print(f"{title}: {ours:.9f}, scikit-learn {optimum:.9f}; more by {ours - optimum:.1e}")


def ours_and_the_optimum(
    model: LinearModel, data: Dataset, settings: dict[str, str]
) -> tuple[float, float]:
    """Return the objectives of the task and of scikit-learn on the training rows."""
    rows, loss = len(data.train), LOSSES[model]
    matrix, targets = _matrix(data.train, data.features), data.train.targets.double()
    l2 = 1 / rows
    # The mean loss is smoother than the loss of the longest row, the unit of the learning rate.
    largest = np.linalg.eigvalsh((matrix.T @ matrix).toarray() / rows)[-1]
    rate = (loss.smoothness * data.largest_norm2 + l2) / (loss.smoothness * largest + l2)
    options = {"model": model, "batch_size": str(rows), "l2": str(l2), "learning_rate": str(rate)}
    config = read(LinearOptions, {**options, **_SETTINGS, **settings})

    def objective(weights: torch.Tensor) -> float:
        losses = loss.value(torch.from_numpy(matrix @ weights.numpy()), targets)
        return (losses.mean() + l2 / 2 * weights.square().sum()).item()

    weights = torch.zeros(data.features)
    alone = session(config, Tracker({}))
    training = Training(config, data, weights, alone)
    for epoch in range(config.epochs):
        training.epoch(epoch)
        alone.progress.end_epoch()
    solver = _SOLVERS[model](l2 * rows).fit(matrix, targets.numpy())
    return objective(weights.double()), objective(torch.from_numpy(solver.coef_.ravel()))


def _matrix(samples: SparseSamples, features: int) -> Any:
    """Return the rows for scikit-learn, in doubles."""
    rows, shape = samples.rows, (len(samples), features)
    if isinstance(rows, DenseRows):
        matrix = csr_array(rows.values.double().numpy())
        matrix.resize(shape)
        return matrix
    first, last = int(rows.starts[0]), int(rows.starts[-1])
    values, columns = rows.values[first:last].double(), rows.columns[first:last]
    entries = (values.numpy(), columns.numpy(), (rows.starts - first).int().numpy())
    return csr_array(entries, shape=shape)


if __name__ == "__main__":
    main()
