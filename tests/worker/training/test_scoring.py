"""Losses, accuracies and R2 from sums over rows."""

import math

import pytest
import torch

from worker.models.linear import LOGISTIC, SQUARED
from worker.training.distributed import World
from worker.training.scoring import Fit, RecentSteps

_SCORES = torch.tensor([2.0, -1.0, 0.0, 3.0])
_CLASSES = torch.tensor([1.0, 1.0, 1.0, -1.0])


def test_classes() -> None:
    fit = Fit.of(LOGISTIC, _SCORES, _CLASSES)
    losses = [math.log1p(math.exp(-margin)) for margin in (2, -1, 0, -3)]
    assert fit.loss == pytest.approx(sum(losses) / 4)
    assert fit.accuracy == 25, "a score of 0 is not right"


def test_regression() -> None:
    targets = torch.tensor([2.5, -1.0, 0.5, 2.0])
    residual = (_SCORES - targets).square().sum().item()
    variation = (targets - targets.mean()).square().sum().item()
    assert Fit.of(SQUARED, _SCORES, targets).r2 == pytest.approx(1 - residual / variation)
    assert Fit.of(SQUARED, targets, targets).r2 == 1
    assert math.isnan(Fit.of(SQUARED, _SCORES, torch.ones(4)).r2)


def test_parts_add_up() -> None:
    whole = Fit.of(LOGISTIC, _SCORES, _CLASSES)
    parts = Fit() + Fit.of(LOGISTIC, _SCORES[:1], _CLASSES[:1])
    parts += Fit.of(LOGISTIC, _SCORES[1:], _CLASSES[1:])
    assert (parts.loss, parts.accuracy) == pytest.approx((whole.loss, whole.accuracy))
    assert whole.over(World()) == whole


def test_recent_steps_are_taken_together() -> None:
    recent = RecentSteps(LOGISTIC, steps=2)
    recent.add(_SCORES[:2], _CLASSES[:2])
    assert not recent.full
    recent.add(_SCORES[2:], _CLASSES[2:])
    assert recent.full
    assert recent.take() == Fit.of(LOGISTIC, _SCORES, _CLASSES)
    recent.add(_SCORES[2:], _CLASSES[2:])
    assert recent.take() == Fit.of(LOGISTIC, _SCORES[2:], _CLASSES[2:])
