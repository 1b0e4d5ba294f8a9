"""NT-ASGD: the trigger and the averages match the paper, also after a checkpoint."""

import torch
from torch import nn

from mlbench_worker.training.nt_asgd import NtAsgd


def step(weight: nn.Parameter, optimizer: NtAsgd, gradient: float) -> None:
    weight.grad = torch.full_like(weight, gradient)
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()


def test_a_loss_above_the_best_of_six_or_more_epochs_ago_triggers_it() -> None:
    optimizer = NtAsgd([nn.Parameter(torch.zeros(1))], weight_decay=0.0)
    for loss in [5, 4, 6, 6, 6, 6, 4.5, 4]:
        optimizer.observe(loss)
        assert not optimizer.averaging, loss
    optimizer.observe(4.1)
    assert optimizer.averaging


def test_the_triggered_optimizer_averages_weights_across_checkpoints() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = NtAsgd([weight], weight_decay=0.1)
    step(weight, optimizer, 1.0)
    assert torch.allclose(weight, torch.full((2,), 1 - 0.5 * (1 + 0.1)))
    for _ in range(6):
        optimizer.observe(1.0)
    optimizer.observe(2.0)
    seen = []
    for gradient in (1.0, -2.0, 3.0):
        restored = NtAsgd([weight], weight_decay=0.1)
        restored.load_state_dict(optimizer.state_dict())
        optimizer = restored
        step(weight, optimizer, gradient)
        seen.append(weight.detach().clone())
    with optimizer.averaged():
        assert torch.allclose(weight, torch.stack(seen).mean(dim=0))
    assert torch.equal(weight, seen[-1])
