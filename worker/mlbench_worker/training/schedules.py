"""Learning rate schedules of Goyal et al. 2017, Smith and Topin 2018, and MLBench's task 1a."""

import bisect
import math
from collections.abc import Callable, Sequence

from mlbench_worker.training.checkpoint import Plain

Schedule = Callable[[int], float]
"""The learning rate of a step; the first step is 0."""


def scale_linearly(
    learning_rate: float,
    *,
    batch_size: int,
    reference_batch: int,
    epoch_steps: int,
    warmup_epochs: int,
    decay_epochs: Sequence[int],
) -> Schedule:
    """Return the schedule of Goyal et al. 2017: a rate in proportion to the batch of all ranks.

    ``learning_rate`` is the rate for ``reference_batch`` samples. A larger rate is reached linearly
    from there within ``warmup_epochs``. After each of ``decay_epochs`` the rate falls to a tenth.
    """
    peak = learning_rate * batch_size / reference_batch
    begin = min(learning_rate, peak)
    warmup_steps = warmup_epochs * epoch_steps
    milestones = [epoch * epoch_steps for epoch in decay_epochs]

    def rate(step: int) -> float:
        if step < warmup_steps:
            return begin + (peak - begin) * step / warmup_steps
        return peak * 0.1 ** bisect.bisect_right(milestones, step)

    return rate


def rise_and_fall(peak: float, steps: int) -> Schedule:
    """Return one cycle (Smith and Topin 2018, Super-Convergence) made of straight lines.

    The rate rises from zero to ``peak`` in the first quarter of ``steps``, then falls to zero.
    """
    top = steps * 0.25

    def rate(step: int) -> float:
        return peak * max(0.0, min((step + 1) / top, (steps - step) / (steps - top)))

    return rate


class PlateauSchedule(Plain):
    """MLBench's schedule of 2020: the rate is halved when the validation loss no longer falls.

    It begins with the rate of one worker, and rises after each epoch to the sum over all workers
    after ``log2(workers)`` epochs, rounded down. From then on it is halved when two epochs in a row
    have not lowered the best loss by more than 0.01, as in MLBench's ReduceLROnPlateau. It never
    falls below the rate of one worker: with a single worker it is constant.
    """

    def __init__(self, worker_rate: float, workers: int) -> None:
        self._least, self._peak = worker_rate, worker_rate * workers
        self._warmup_epochs = int(math.log2(workers))
        self._rate = worker_rate
        self._epochs = 0
        self._lowest = math.inf
        self._missed = 0

    def __call__(self, step: int) -> float:
        """Return the rate of the epoch that a step belongs to."""
        return self._rate

    def epoch_ended(self, loss: float) -> None:
        """Set the rate of the next epoch by this one's validation loss."""
        self._epochs += 1
        if self._epochs <= self._warmup_epochs:
            share = self._epochs / self._warmup_epochs
            self._rate = self._least + (self._peak - self._least) * share
            return
        if loss < self._lowest - 0.01:
            self._lowest, self._missed = loss, 0
            return
        self._missed += 1
        if self._missed > 1:
            self._rate, self._missed = max(self._rate * 0.5, self._least), 0
