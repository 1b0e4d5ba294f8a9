"""Gradients live in one buffer, and shards' gradients add up to the whole batch's."""

import torch
from torch import nn
from torch.nn import functional

from worker.training.allreduce import FlatGradients, broadcast_parameters
from worker.training.distributed import World


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def add_gradients(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> None:
    loss = functional.cross_entropy(model(inputs), labels, reduction="sum")
    loss.backward()  # type: ignore[no-untyped-call]


def test_backward_fills_the_buffer_that_clear_empties() -> None:
    plain, flat = make_model(), make_model()
    buffer = FlatGradients(flat)
    inputs, labels = torch.rand(5, 4), torch.tensor([0, 1, 2, 0, 1])
    add_gradients(plain, inputs, labels)
    add_gradients(flat, inputs, labels)
    for expected, got in zip(gradients(plain), gradients(flat), strict=True):
        assert torch.equal(expected, got)

    buffer.clear()
    assert all(not gradient.any() for gradient in gradients(flat))
    add_gradients(flat, inputs, labels)
    assert all(map(torch.equal, gradients(plain), gradients(flat)))


class Doubling(World):
    """Two ranks that always have the same gradients."""

    def sum_(self, tensor: torch.Tensor) -> None:
        """Add the other's."""
        tensor.mul_(2)


def test_the_sum_over_ranks_reaches_every_parameter() -> None:
    model = make_model()
    buffer = FlatGradients(model)
    add_gradients(model, torch.rand(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    before = gradients(model)
    buffer.sum_over(Doubling(0, 2))
    assert all(torch.equal(2 * old, new) for old, new in zip(before, gradients(model), strict=True))


def test_broadcast_alone_changes_nothing() -> None:
    model, same = make_model(), make_model()
    broadcast_parameters(model, World())
    assert all(map(torch.equal, model.parameters(), same.parameters()))


class Rank1(World):
    """A rank that is given ones by rank 0."""

    def broadcast_(self, tensor: torch.Tensor) -> None:
        """Receive."""
        tensor.fill_(1)


def test_broadcast_replaces_every_parameter_and_training_goes_on() -> None:
    model = make_model()
    broadcast_parameters(model, Rank1(1, 2))
    assert all(parameter.eq(1).all() for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())
    FlatGradients(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    add_gradients(model, torch.rand(5, 4), torch.tensor([0, 0, 0, 0, 0]))
    optimizer.step()
    assert not all(parameter.eq(1).all() for parameter in model.parameters())
