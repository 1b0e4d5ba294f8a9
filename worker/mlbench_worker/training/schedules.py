"""Learning rates: of Goyal et al. 2017, of Smith and Topin 2018, of MLBench's task 1a of 2020."""

import bisect
import math
from collections.abc import Callable, Sequence

from mlbench_worker.training.checkpoint import Plain

Schedule = Callable[[int], float]
"""The learning rate of a step; the first step is 0."""

# The share of the steps in which one cycle rises.
_RISE = 0.25
# How MLBench calls ReduceLROnPlateau.
_FACTOR = 0.5
_THRESHOLD = 0.01
_PATIENCE = 1


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

    ``learning_rate`` is that of ``reference_batch`` samples. A larger one rises linearly from there
    in ``warmup_epochs``. After each of ``decay_epochs`` the rate falls to a tenth.
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
    """Return one cycle (Smith and Topin 2018, Super-Convergence), of straight lines.

    From zero the rate rises to ``peak`` in the first quarter of ``steps``, and then falls to zero.
    """
    top = steps * _RISE

    def rate(step: int) -> float:
        return peak * max(0.0, min((step + 1) / top, (steps - step) / (steps - top)))

    return rate


class PlateauSchedule(Plain):
    """MLBench's of 2020: a rate that is halved where the validation loss no longer falls.

    It begins as one worker's, and rises after each epoch, until it is the sum of all workers' after
    ``log2(workers)`` epochs, rounded down. From then on it is halved when two epochs in a row have
    missed the lowest loss by 0.01 or more, down to one worker's: with a single worker it is
    constant.
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
            risen = self._epochs / self._warmup_epochs
            self._rate = self._least + (self._peak - self._least) * risen
            return
        if loss < self._lowest - _THRESHOLD:
            self._lowest, self._missed = loss, 0
            return
        self._missed += 1
        if self._missed > _PATIENCE:
            self._rate, self._missed = max(self._rate * _FACTOR, self._least), 0
