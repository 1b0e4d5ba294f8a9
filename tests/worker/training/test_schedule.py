"""The learning rate rises to its peak, and falls at each milestone."""

import pytest

from worker.training.schedule import Constant, WarmupThenSteps, scale_linearly

_RATES = WarmupThenSteps(start=0.1, peak=0.4, warmup_steps=3, milestones=[5, 8], factor=0.1)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.1),
        (1, 0.2),
        (2, 0.3),
        (3, 0.4),
        (4, 0.4),
        (5, 0.04),
        (7, 0.04),
        (8, 0.004),
        (100, 0.004),
    ],
)
def test_it_warms_up_and_decays(step: int, rate: float) -> None:
    assert _RATES.at(step) == pytest.approx(rate)


def test_without_warmup_it_begins_at_its_peak() -> None:
    assert WarmupThenSteps(0.1, 0.4, warmup_steps=0, milestones=[]).at(0) == 0.4


def test_constant_is_constant() -> None:
    assert {Constant(0.05).at(step) for step in (0, 1, 1000)} == {0.05}


@pytest.mark.parametrize(
    ("workers", "by_epoch"),
    [
        (1, {0: 0.0125, 3: 0.0125, 29: 0.0125, 30: 0.00125}),
        (8, {0: 0.1, 5: 0.1, 29: 0.1, 30: 0.01, 60: 0.001, 80: 0.0001, 89: 0.0001}),
        (256, {0: 0.1, 1: 0.72, 2.5: 1.65, 5: 3.2, 29: 3.2, 30: 0.32, 60: 0.032, 80: 0.0032}),
    ],
)
def test_on_imagenet_it_is_that_of_goyal_et_al(workers: int, by_epoch: dict[float, float]) -> None:
    steps = 1_281_167 // (32 * workers)
    steps -= steps % 2  # so that the middle of an epoch is a step
    rates = scale_linearly(
        0.1,
        batch_size=32 * workers,
        reference_batch=256,
        epoch_steps=steps,
        warmup_epochs=5,
        decay_epochs=(30, 60, 80),
    )
    found = {epoch: rates.at(round(epoch * steps)) for epoch in by_epoch}
    assert found == pytest.approx(by_epoch)
