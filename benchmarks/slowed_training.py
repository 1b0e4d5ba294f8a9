"""Own code for ``equal_runs``: a small network learns digits, each step slower by a share.

``python slowed_training.py SHARE WAIT LABEL``: each step waits WAIT seconds, as for an accelerator;
the label changes nothing. It only needs NumPy, so that it starts at once.
"""

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mlbench import Tracker
from mlbench.contract import names

_SECONDS, _BATCH, _HIDDEN = 2.0, 128, 256
_RATE = 0.1


def main(share: float, wait: float, seed: int) -> None:
    """Train for some seconds."""
    sklearn = find_spec("sklearn")
    assert sklearn
    assert sklearn.origin
    file = Path(sklearn.origin).parent / "datasets" / "data" / "digits.csv.gz"
    rows = np.loadtxt(file, delimiter=",")
    pixels, digits = rows[:, :-1] / 16, np.eye(10)[rows[:, -1].astype(int)]
    random = np.random.default_rng(seed)
    first, second = (random.normal(0, 0.1, size) for size in ((64, _HIDDEN), (_HIDDEN, 10)))
    ends = time.perf_counter() + _SECONDS
    with Tracker() as tracker:
        while time.perf_counter() < ends:
            began = time.perf_counter()
            batch = random.integers(len(rows), size=_BATCH)
            hidden = np.maximum(pixels[batch] @ first, 0)
            scores = np.exp(hidden @ second)
            slopes = (scores / scores.sum(axis=1, keepdims=True) - digits[batch]) / _BATCH
            back = (slopes @ second.T) * (hidden > 0)
            second -= _RATE * hidden.T @ slopes
            first -= _RATE * pixels[batch].T @ back
            time.sleep(wait)
            time.sleep(share * (time.perf_counter() - began))
            tracker.step(samples=_BATCH)


main(float(sys.argv[1]), float(sys.argv[2]), int(os.environ[names.ENV_SEED]))
