"""Labelled images in memory, and each rank's augmented batches of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.rank_process import DataError


@dataclass(frozen=True)
class Images:
    """Labelled square images: ``[n, channels, size, size]`` and int64 ``[n]``.

    Float images are ready for the model. Byte images are normalized by ``take``, channel by
    channel: ``(image - mean) / deviation``.
    """

    images: torch.Tensor
    labels: torch.Tensor
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)

    def __len__(self) -> int:
        return len(self.labels)

    def shard(self, world: World) -> "Images":
        """Return this rank's part. The parts of all ranks together are the whole."""
        return self._part(world.shard(len(self)))

    def batches(self, size: int) -> Iterator["Images"]:
        """Yield all images in order, as floats, at most ``size`` at a time."""
        for first in range(0, len(self), size):
            yield self.take(slice(first, first + size))

    def take(self, index: torch.Tensor | slice) -> "Images":
        """Return some of the images, as floats."""
        part = self._part(index)
        if part.images.is_floating_point():
            return part
        mean, deviation = (
            torch.tensor(values, device=part.images.device).view(-1, 1, 1)
            for values in (self.mean, self.deviation)
        )
        return Images((part.images - mean).div_(deviation), part.labels)

    def to(self, device: torch.device) -> "Images":
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def _part(self, index: torch.Tensor | slice) -> "Images":
        return replace(self, images=self.images[index], labels=self.labels[index])


@dataclass(frozen=True)
class ImageData:
    """The two parts of a data set of labelled images."""

    train: Images
    validation: Images
    sha256: str
    """SHA-256 of the data set's file or arrays, in hexadecimal."""


def augmented_batches(
    data: Images,
    batch_size: int,
    world: World,
    seed: int,
    epoch: int,
    first: int = 0,
    *,
    shift: int,
    flip: bool,
) -> Iterator[Images]:
    """Yield this rank's shares of an epoch's batches, the images shifted and mirrored at random.

    The epoch begins with the batch ``first``, because earlier batches are done.

    An image is shifted by up to ``shift`` pixels in each direction and padded with zeros (after
    normalization): the random crop from a padded image of He et al. 2015, section 4.2. It is
    mirrored only with ``flip``.

    Order, shifts and flips depend on ``seed`` and ``epoch`` alone. Every rank draws them for all
    ranks, as in ``shares_of_epoch``, which also says when a DataError is raised.
    """
    device, count, size = data.images.device, len(data), data.images.shape[-1]
    generator = torch.Generator().manual_seed((seed << 20) + epoch)
    shares = shares_of_epoch(count, batch_size, world, generator).to(device)
    down, right = torch.randint(2 * shift + 1, (2, count), generator=generator).to(device)
    if flip:
        flipped = torch.randint(2, (count,), generator=generator).bool().to(device)
    for index in shares[first:]:
        batch = data.take(index)
        images, labels = batch.images, batch.labels
        if flip:
            images = torch.where(flipped[index].view(-1, 1, 1, 1), images.flip(3), images)
        # [n, channels, 2 * shift + 1, 2 * shift + 1, size, size]: views through a window.
        windows = functional.pad(images, (shift,) * 4).unfold(2, size, 1).unfold(3, size, 1)
        each = torch.arange(len(index), device=device)
        yield Images(windows[each, :, down[index], right[index]], labels)


def shares_of_epoch(
    count: int, batch_size: int, world: World, generator: torch.Generator
) -> torch.Tensor:
    """Return this rank's share of each batch of an epoch: indices ``[steps, share]``.

    Every rank draws the order of all samples from an equal generator, so any number of ranks
    together sees the same batches. ``batch_size`` counts the samples of all ranks. A last, smaller
    batch is left out.

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
