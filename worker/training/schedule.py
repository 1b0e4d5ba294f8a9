"""Learning rates over time: a pure function of the step."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """Says which learning rate a step has."""

    def at(self, step: int) -> float:
        """Return the learning rate of a step; the first step is 0."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same learning rate at every step."""

    rate: float

    def at(self, step: int) -> float:
        """Return the learning rate of a step; the first step is 0."""
        return self.rate


@dataclass(frozen=True)
class WarmupThenSteps:
    """A linear rise from ``start`` to ``peak``, then a fall by ``factor`` at each milestone.

    Gradual warm-up: Goyal et al., Accurate, Large Minibatch SGD, 2017, section 2.2. The rise takes
    ``warmup_steps`` steps; the milestones count steps from the very beginning.
    """

    start: float
    peak: float
    warmup_steps: int
    milestones: Sequence[int]
    factor: float = 0.1

    def at(self, step: int) -> float:
        """Return the learning rate of a step; the first step is 0."""
        if step < self.warmup_steps:
            return self.start + (self.peak - self.start) * step / self.warmup_steps
        return self.peak * self.factor ** bisect.bisect_right(self.milestones, step)


def scale_linearly(
    learning_rate: float,
    *,
    batch_size: int,
    reference_batch: int,
    epoch_steps: int,
    warmup_epochs: int,
    decay_epochs: Sequence[int],
) -> WarmupThenSteps:
    """Return the schedule of Goyal et al. 2017: as much larger a rate as the batch is larger.

    Args:
        learning_rate: that of a batch of ``reference_batch`` samples.
        batch_size: samples in a step, over all ranks.
        reference_batch: samples that the rate is given for.
        epoch_steps: steps in an epoch.
        warmup_epochs: in which a rate above ``learning_rate`` is reached, from there.
        decay_epochs: after how many epochs the rate falls to a tenth.
    """
    peak = learning_rate * batch_size / reference_batch
    return WarmupThenSteps(
        start=min(learning_rate, peak),
        peak=peak,
        warmup_steps=warmup_epochs * epoch_steps,
        milestones=[epoch * epoch_steps for epoch in decay_epochs],
    )
