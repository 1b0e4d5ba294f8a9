"""Synchronous gradient exchange: one flat buffer, summed over all ranks after the backward pass."""

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from worker.training.distributed import World


class FlatGradients:
    """A model's gradients as views into one buffer, so that one all-reduce takes no copying.

    The exchange starts when the backward pass has ended. PyTorch's DistributedDataParallel
    overlaps the two, which is faster over a slow network; apart, each can be measured by itself.
    """

    def __init__(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        sizes = [parameter.numel() for parameter in parameters]
        self._flat = torch.zeros(sum(sizes))
        for parameter, part in zip(parameters, torch.split(self._flat, sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    def clear(self) -> None:
        """Set all gradients to zero. The optimizer's own ``zero_grad`` would drop the views."""
        self._flat.zero_()

    def sum_over(self, world: World) -> None:
        """Replace each gradient by its sum over all ranks.

        Raises:
            WorldError: a peer has gone, or did not answer in time.
        """
        world.sum_(self._flat)


def broadcast_parameters(model: nn.Module, world: World) -> None:
    """Give the model rank 0's parameters, so that all ranks start from the same ones.

    Raises:
        WorldError: a peer has gone, or did not answer in time.
    """
    with torch.no_grad():
        flat = parameters_to_vector(model.parameters())
        world.broadcast_(flat)
        vector_to_parameters(flat, model.parameters())
