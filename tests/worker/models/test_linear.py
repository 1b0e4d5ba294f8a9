"""The closed forms are what automatic differentiation finds, in double precision."""

import pytest
import torch

from worker.data.libsvm.rows import DenseRows
from worker.models.linear import (
    LOGISTIC,
    SQUARED,
    SQUARED_HINGE,
    Loss,
    Weights,
    softmax_derivative,
    softmax_loss,
)

_LOSSES = {"logistic": LOGISTIC, "squared": SQUARED, "squared hinge": SQUARED_HINGE}


def doubles(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("loss", _LOSSES.values(), ids=_LOSSES)
def test_the_derivative_is_that_of_the_loss(loss: Loss) -> None:
    scores = torch.cat([3 * doubles(50, seed=0), torch.tensor([0.0, 60.0, -60.0])]).requires_grad_()
    targets = doubles(53, seed=1).sign()
    (expected,) = torch.autograd.grad(loss.value(scores, targets).sum(), scores)
    torch.testing.assert_close(loss.derivative(scores.detach(), targets), expected)


@pytest.mark.parametrize("loss", _LOSSES.values(), ids=_LOSSES)
def test_the_smoothness_bounds_the_second_derivative_and_is_reached(loss: Loss) -> None:
    scores = torch.linspace(-5, 5, 1001, dtype=torch.float64)
    targets = torch.ones_like(scores)
    second = loss.derivative(scores, targets).diff() / scores.diff()
    assert second.max().item() == pytest.approx(loss.smoothness, rel=1e-3)


@pytest.mark.parametrize("loss", _LOSSES.values(), ids=_LOSSES)
def test_a_step_follows_the_gradient_of_the_objective(loss: Loss) -> None:
    x, y, l2, rate = doubles(20, 5, seed=2), doubles(20, seed=3).sign(), 0.1, 0.5
    w = doubles(5, seed=4).requires_grad_()
    objective = loss.value(x @ w, y).mean() + l2 / 2 * w.square().sum()
    (expected,) = torch.autograd.grad(objective, w)

    weights, gradient = Weights(w.detach().clone()), torch.empty(5, dtype=torch.float64)
    rows = DenseRows(x)
    rows.weighted_sum_(gradient, loss.derivative(rows.scores(weights.values), y) / len(y))
    weights.descend_(gradient, rate, l2)
    torch.testing.assert_close(weights.values, w.detach() - rate * expected)


def test_softmax() -> None:
    scores, classes = (5 * doubles(30, 4, seed=5)).requires_grad_(), torch.arange(30) % 4
    loss = softmax_loss(scores, classes)
    by_hand = scores.exp().sum(dim=1).log() - scores[torch.arange(30), classes]
    torch.testing.assert_close(loss, by_hand)
    (expected,) = torch.autograd.grad(loss.sum(), scores)
    torch.testing.assert_close(softmax_derivative(scores.detach(), classes), expected)


def test_weights_are_kept_and_taken_back() -> None:
    weights, other = Weights(torch.arange(3.0)), Weights(torch.zeros(3))
    other.load_state_dict(weights.state_dict())
    assert other.values.tolist() == [0, 1, 2]
    assert other.values is not weights.values
