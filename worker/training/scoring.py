"""How well a linear model's scores fit their targets: sums over rows, and the figures they give."""

import math
from dataclasses import astuple, dataclass

import torch

from worker.models.linear import Loss
from worker.training.distributed import World

PERCENT = 100.0


@dataclass(frozen=True)
class Fit:
    """How well scores fit their targets: sums over rows, as shares and shards differ in size."""

    rows: float = 0.0
    loss_sum: float = 0.0
    right: float = 0.0
    """Rows whose score has the sign of the target."""
    target_sum: float = 0.0
    target_squares: float = 0.0

    @classmethod
    def of(cls, loss: Loss, scores: torch.Tensor, targets: torch.Tensor) -> "Fit":
        """Return the fit of scores ``[n]`` to targets ``[n]``."""
        targets = targets.double()
        sums = [
            loss.value(scores.double(), targets).sum(),
            (scores * targets > 0).sum(),
            targets.sum(),
            targets.square().sum(),
        ]
        return cls(float(len(targets)), *torch.stack(sums).tolist())

    def __add__(self, other: "Fit") -> "Fit":
        return Fit(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def over(self, world: World) -> "Fit":
        """Return the fit over all ranks' rows: the same on each.

        Raises:
            WorldError: a peer was lost.
        """
        sums = torch.tensor(astuple(self), dtype=torch.float64, device=world.device)
        world.sum_(sums)
        return Fit(*sums.tolist())

    @property
    def loss(self) -> float:
        """Mean loss, without the penalty."""
        return self.loss_sum / self.rows

    @property
    def accuracy(self) -> float:
        """Share of rows whose score has the sign of the target, in percent."""
        return PERCENT * self.right / self.rows

    @property
    def r2(self) -> float:
        """The coefficient of determination, if the loss is ``(s - y)² / 2``: 1 is a perfect fit.

        NaN where all targets are the same.
        """
        variation = self.target_squares - self.target_sum**2 / self.rows
        return 1 - 2 * self.loss_sum / variation if variation > 0 else math.nan


class RecentSteps:
    """The scores of the last steps, kept so that one pass computes the losses of all of them.

    That takes a fraction of the time that losses computed step by step would take.
    """

    def __init__(self, loss: Loss, steps: int) -> None:
        """Keep so many steps."""
        self._loss = loss
        self._steps = steps
        self._scores: list[torch.Tensor] = []
        self._targets: list[torch.Tensor] = []

    @property
    def full(self) -> bool:
        """Whether there are as many steps as shall be kept."""
        return len(self._scores) == self._steps

    def add(self, scores: torch.Tensor, targets: torch.Tensor) -> None:
        """Keep the scores and targets of a step."""
        self._scores.append(scores)
        self._targets.append(targets)

    def take(self) -> Fit:
        """Return the fit of the steps since the last call, and begin anew."""
        fit = Fit.of(self._loss, torch.cat(self._scores), torch.cat(self._targets))
        self._scores, self._targets = [], []
        return fit
