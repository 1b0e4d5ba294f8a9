"""Steps without training: known values at a known rate, to check the path to Prometheus.

Every rank records ``train_loss = 1 / (1 + step / 100)`` at each step from 1 on, and an epoch every
100 steps. Every value that arrives can be compared with the value sent. PyTorch is not needed.
"""

import time
from dataclasses import asdict

from mlbench import Tracker
from mlbench.benchmarks.tasks import StepsOptions
from mlbench_worker.ranks.rank_process import run

_EPOCH_STEPS = 100


def train_loss(step: int) -> float:
    """Return the loss recorded at a step: it falls from 1 towards 0 without repeating a value."""
    return 1 / (1 + step / 100)


def main(config: StepsOptions) -> None:
    """Record each step when it is due; a late step does not delay the following ones."""
    with Tracker() as tracker:
        tracker.settings(asdict(config))
        started = time.perf_counter()
        for step in range(1, config.steps + 1):
            if (step - 1) % _EPOCH_STEPS == 0:
                tracker.epoch((step - 1) // _EPOCH_STEPS)
            early = started + step / config.rate - time.perf_counter()
            if early > 0:
                time.sleep(early)
            tracker.step(samples=1, train_loss=train_loss(step))
            if step % _EPOCH_STEPS == 0 or step == config.steps:
                rate = step / (time.perf_counter() - started)
                print(f"step {step} of {config.steps}: {rate:.1f} steps a second", flush=True)


if __name__ == "__main__":
    run(main, StepsOptions)
