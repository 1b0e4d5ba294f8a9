"""Which learning rate and momentum suit each exchange: a small search on seeds of its own.

``digits`` on two ranks to its light goal, with every rate and momentum below and three seeds that
nothing else uses. The best reaches the goal in the fewest epochs; which is no matter of bandwidth
or of other programs, so that it may run beside them. What it finds is the task's recipe ``tuned``.

    torchrun --master-port 29500 --nproc-per-node 2 -m benchmarks.exchange_tuning
"""

import contextlib
import io
import os
import re
from statistics import fmean

from mlbench.options import read
from mlbench.tasks import DigitsOptions
from mlbench_worker.tasks.digits import main as train

_EXCHANGES = ["ddp", "local-sgd", "decentralized", "choco", "signsgd", "topk", "powersgd", "qsgd"]
_RATES = {0.0: (0.05, 0.1, 0.2, 0.4), 0.9: (0.01, 0.02, 0.05, 0.1)}
_SEEDS = (101, 102, 103)
_GOAL = 90.0
_MOST_EPOCHS = 16


def search() -> None:
    """Print the mean epochs of each choice, best first."""
    for exchange in _EXCHANGES:
        choices = [(rate, momentum) for momentum, rates in _RATES.items() for rate in rates]
        ranking = sorted(
            (fmean(_epochs(exchange, *choice, seed) for seed in _SEEDS), *choice)
            for choice in choices
        )
        if os.environ["RANK"] == "0":
            texts = (f"{rate:g}/{momentum:g}: {epochs:.1f}" for epochs, rate, momentum in ranking)
            print(f"{exchange:<14}", "  ".join(texts), flush=True)


def _epochs(exchange: str, rate: float, momentum: float, seed: int) -> int:
    """Train once, and return the epochs until the goal; one more than the most if they are over."""
    # Ranks meet at a new port each time: torchrun itself has the first.
    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    options = {
        "exchange": exchange,
        "learning_rate": str(rate),
        "momentum": str(momentum),
        "seed": str(seed),
        "goal": str(_GOAL),
        "epochs": str(_MOST_EPOCHS),
    }
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        train(read(DigitsOptions, options))
    last = max(map(int, re.findall(r"^epoch (\d+)", output.getvalue(), re.MULTILINE)))
    return last + (1 if "goal reached" in output.getvalue() else 2)


if __name__ == "__main__":
    search()
