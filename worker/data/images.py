"""Labelled images, and the batches that each rank takes from them in an epoch."""

from dataclasses import dataclass

import torch
from torch.nn import functional

from worker.training.distributed import World


@dataclass(frozen=True)
class Images:
    """Labelled square images: float ``[n, channels, size, size]`` and int64 ``[n]``."""

    images: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def shard(self, world: World) -> "Images":
        """Return this rank's part: the ranks' parts make up the whole, no image is in two."""
        mine = world.shard(len(self))
        return Images(self.images[mine], self.labels[mine])


class ShiftedBatches:
    """One rank's shares of an epoch's batches, each image shifted by up to a pixel either way.

    Order and shifts depend on ``seed`` and ``epoch`` alone, and every rank draws them for all, so
    the ranks together see the same batches whatever their number. What is left for a last, smaller
    batch is left out of the epoch.
    """

    def __init__(self, data: Images, batch_size: int, world: World, seed: int, epoch: int) -> None:
        """Draw the epoch's order and shifts; ``batch_size`` counts the images of all ranks.

        Raises:
            ValueError: the batch is larger than the data, or smaller than the number of ranks.
        """
        if not world.size <= batch_size <= len(data):
            raise ValueError(
                f"a batch of {batch_size} images must hold at least one for each of the "
                f"{world.size} ranks, and at most the {len(data)} images there are"
            )
        self.batch_size = batch_size
        generator = torch.Generator().manual_seed((seed << 20) + epoch)
        order = torch.randperm(len(data), generator=generator)
        self._down, self._right = torch.randint(3, (2, len(data)), generator=generator)
        steps = len(data) // batch_size
        batches = order[: steps * batch_size].view(steps, batch_size)
        self._mine = batches[:, world.shard(batch_size)]
        # [n, channels, 3, 3, size, size]: views of each padded image through a window.
        size = data.images.shape[-1]
        padded = functional.pad(data.images, (1, 1, 1, 1))
        self._windows = padded.unfold(2, size, 1).unfold(3, size, 1)
        self._labels = data.labels

    def __len__(self) -> int:
        return len(self._mine)

    def __getitem__(self, step: int) -> Images:
        index = self._mine[step]
        shifted = self._windows[index, :, self._down[index], self._right[index]]
        return Images(shifted, self._labels[index])
