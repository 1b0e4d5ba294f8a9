"""Linear models in closed form: losses of a score, and their derivatives by it.

A linear model gives a row ``x`` the score ``s = w·x``. With a loss ``l(s, y)`` it minimizes

    F(w) = mean of l(w·x, y) over all rows + l2/2 |w|²,   whose gradient is   X^T d / n + l2 w

with ``d = dl/ds`` of each row. No automatic differentiation is needed: the two products with ``X``
are all the work there is. There is no intercept, as in LIBLINEAR's default; data that need one get
a feature that is always 1.

Losses are those of Hastie, Tibshirani, Friedman: The Elements of Statistical Learning, 2nd edition,
chapters 3.4 (ridge), 4.4 (logistic) and 12.3 (support vector machine).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Loss:
    """A loss of scores ``[n]`` and targets ``[n]``."""

    value: LossFunction
    """Each row's loss ``[n]``."""
    derivative: LossFunction
    """Each row's derivative by its score ``[n]``."""
    smoothness: float
    """The largest second derivative by the score.

    The loss of a row ``x`` is so L-smooth in ``w`` with L = smoothness times ``|x|²``, and gradient
    descent on it converges with steps of up to 2 / L.
    """


def logistic_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return ``log(1 + exp(-y s))``, for targets -1 and +1: minus the log likelihood, in nats."""
    return functional.softplus(-targets * scores)


def logistic_derivative(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return ``-y / (1 + exp(y s))``."""
    return (targets * scores).neg_().sigmoid_().mul_(targets).neg_()


def squared_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return ``(s - y)² / 2``."""
    return (scores - targets).square_().mul_(0.5)


def squared_derivative(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return ``s - y``."""
    return scores - targets


def squared_hinge_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return ``max(0, 1 - y s)²``, for targets -1 and +1: of the L2-loss support vector machine.

    It is LIBLINEAR's default (Fan et al.: LIBLINEAR, A Library for Large Linear Classification,
    JMLR 9, 2008), and smooth, which the hinge ``max(0, 1 - y s)`` is not.
    """
    return (1 - targets * scores).clamp_(min=0).square_()


def squared_hinge_derivative(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return ``-2 y max(0, 1 - y s)``."""
    return (1 - targets * scores).clamp_(min=0).mul_(targets).mul_(-2)


LOGISTIC = Loss(logistic_loss, logistic_derivative, smoothness=0.25)
SQUARED = Loss(squared_loss, squared_derivative, smoothness=1.0)
SQUARED_HINGE = Loss(squared_hinge_loss, squared_hinge_derivative, smoothness=2.0)


def softmax_loss(scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return ``log(sum over k of exp(s_k)) - s_y``, for scores ``[n, classes]`` and int64 ``y``.

    Minus the log likelihood of multinomial logistic regression, in nats (Hastie et al., 4.4).
    """
    return functional.cross_entropy(scores, classes, reduction="none")


def softmax_derivative(scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return ``softmax(s) - e_y`` ``[n, classes]``, where ``e_y`` is 1 at the right class."""
    derivative = scores.softmax(dim=1)
    derivative[torch.arange(len(classes)), classes] -= 1
    return derivative


@dataclass(frozen=True)
class Weights:
    """The parameters of a linear model, in a form that checkpoints can keep."""

    values: torch.Tensor
    """``[features]``, or ``[features, classes]``"""

    def state_dict(self) -> dict[str, Any]:
        """Return the values."""
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Take the values of another model of this size."""
        self.values.copy_(state["values"])

    def descend_(self, gradient: torch.Tensor, rate: float, l2: float) -> None:
        """Take a step of gradient descent: ``w <- w - rate (gradient + l2 w)``."""
        self.values.mul_(1 - rate * l2).add_(gradient, alpha=-rate)
