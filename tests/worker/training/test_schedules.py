"""Learning rates of the papers and of MLBench's own task."""

import random

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from mlbench_worker.training.schedules import PlateauSchedule, rise_and_fall, scale_linearly


@pytest.mark.parametrize(
    ("workers", "by_epoch"),
    [
        (1, {0: 0.0125, 3: 0.0125, 29: 0.0125, 30: 0.00125}),
        (8, {0: 0.1, 5: 0.1, 29: 0.1, 30: 0.01, 60: 0.001, 80: 0.0001, 89: 0.0001}),
        (256, {0: 0.1, 1: 0.72, 2.5: 1.65, 5: 3.2, 29: 3.2, 30: 0.32, 60: 0.032, 80: 0.0032}),
    ],
)
def test_the_rate_for_imagenet_matches_goyal_et_al(
    workers: int, by_epoch: dict[float, float]
) -> None:
    steps = 1_281_167 // (32 * workers)
    steps -= steps % 2  # an even number, so that the middle of an epoch is a step
    rates = scale_linearly(
        0.1,
        batch_size=32 * workers,
        reference_batch=256,
        epoch_steps=steps,
        warmup_epochs=5,
        decay_epochs=(30, 60, 80),
    )
    curve = {epoch: rates(round(epoch * steps)) for epoch in by_epoch}
    assert curve == pytest.approx(by_epoch)


def test_one_cycle_rises_for_a_quarter_and_ends_at_zero() -> None:
    rate = rise_and_fall(0.4, 80)
    assert [rate(step) for step in (0, 19, 20, 50, 80)] == pytest.approx([0.02, 0.4, 0.4, 0.2, 0])


@pytest.mark.parametrize(
    ("workers", "warmup"),
    [(1, [0.02]), (2, [0.02, 0.04]), (5, [0.02, 0.06, 0.1]), (8, [0.02, 0.2 / 3, 0.34 / 3, 0.16])],
)
def test_mlbenchs_rate_warms_up_by_workers_and_falls_like_pytorchs_plateau(
    workers: int, warmup: list[float]
) -> None:
    rates = PlateauSchedule(0.02, workers)
    for expected in warmup[:-1]:
        assert rates(0) == pytest.approx(expected)
        rates.epoch_ended(0.1)  # lower than all later losses
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=warmup[-1])
    plateau = ReduceLROnPlateau(
        optimizer, factor=0.5, patience=1, threshold=0.01, threshold_mode="abs", min_lr=0.02
    )
    noise = random.Random(0)  # noqa: S311
    for epoch in range(60):
        assert rates(epoch) == pytest.approx(optimizer.param_groups[0]["lr"])
        loss = 2 / (1 + epoch) + noise.uniform(0, 0.3)
        plateau.step(loss)
        before, rates = rates, PlateauSchedule(0.02, workers)
        rates.load_state_dict(before.state_dict())
        rates.epoch_ended(loss)
    assert rates(60) == 0.02
