"""The order of an epoch: which samples make up each step's batch, and whose share is which."""

import torch

from worker.data.folder import DataError
from worker.training.distributed import World


def shares_of_epoch(
    count: int, batch_size: int, world: World, generator: torch.Generator
) -> torch.Tensor:
    """Return this rank's share of each batch of an epoch: indices ``[steps, share]``.

    The order is drawn for all ranks from a generator that is the same on each, so the ranks
    together see the same batches whatever their number. ``batch_size`` counts the samples of all
    ranks; what is left for a last, smaller batch is left out.

    Raises:
        DataError: the batch is larger than the data, or smaller than the number of ranks.
    """
    if not world.size <= batch_size <= count:
        raise DataError(
            f"a batch of {batch_size} must hold at least one sample for each of the {world.size} "
            f"ranks, and at most the {count} that there are"
        )
    steps = count // batch_size
    order = torch.randperm(count, generator=generator)
    return order[: steps * batch_size].view(steps, batch_size)[:, world.shard(batch_size)]
