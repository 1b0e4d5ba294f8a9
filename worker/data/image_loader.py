"""Batches of image files: read, decoded and cropped ahead of time, by processes of their own.

The order of an epoch is drawn for all ranks, and what an image looks like in it depends on the
seed, the epoch and the image alone: any number of ranks and of processes sees the same batches.
Pixels stay bytes until they are on the device, where they are normalized.
"""

import ctypes
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from worker.data.crops import Pixels, centre_crop, random_crop
from worker.data.image_folder import ImageFiles
from worker.data.images import Images
from worker.data.order import shares_of_epoch
from worker.training.distributed import World

# Mean and standard deviation of ImageNet's pixels: red, green, blue, from 0 to 255.
MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
DEVIATION = (0.229 * 255, 0.224 * 255, 0.225 * 255)

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Loading:
    """How a rank loads its images."""

    size: int
    """Width and height of the squares that the model is given, in pixels."""
    processes: int
    """How many load images while the model is trained; 0: the training process itself."""
    device: torch.device
    """Where the images are wanted."""


def loading_processes(wanted: int) -> int:
    """Return how many processes to load with: as many as wanted, but at most one for each core."""
    return min(wanted, len(os.sched_getaffinity(0)))


class TrainingBatches:
    """One rank's shares of an epoch's batches: random crops, mirrored half of the time.

    What is left for a last, smaller batch is left out of the epoch. Iterating raises a DataError
    for a file that cannot be read.
    """

    def __init__(
        self,
        files: ImageFiles,
        batch_size: int,
        world: World,
        seed: int,
        epoch: int,
        loading: Loading,
    ) -> None:
        """Draw the epoch's order; ``batch_size`` counts the images of all ranks.

        Raises:
            DataError: the batch is larger than the data, or smaller than the number of ranks.
        """
        self.batch_size = batch_size
        generator = torch.Generator().manual_seed((seed << 20) + epoch)
        self._mine = shares_of_epoch(len(files), batch_size, world, generator)
        self._crops = _RandomCrops(files, loading.size, seed, epoch)
        self._loading = loading

    def __len__(self) -> int:
        return len(self._mine)

    def __iter__(self) -> Iterator[Images]:
        return _load(self._crops, self._mine.tolist(), self._loading)


class ValidationBatches:
    """The centres of all given images, in order, at most ``batch_size`` at a time.

    Iterating raises a DataError for a file that cannot be read.
    """

    def __init__(self, files: ImageFiles, batch_size: int, loading: Loading) -> None:
        every = range(len(files))
        self._batches = [list(every[first : first + batch_size]) for first in every[::batch_size]]
        self._crops = _CentreCrops(files, loading.size)
        self._loading = loading

    def __iter__(self) -> Iterator[Images]:
        return _load(self._crops, self._batches, self._loading)


class _Crops(Dataset[tuple[torch.Tensor, int]]):
    """Image files as what is looked at of them, ``[size, size, 3]``, with their labels."""

    def __init__(self, files: ImageFiles, size: int) -> None:
        self.files = files
        self.size = size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(self.pixels(index)), int(self.files.labels[index])

    def pixels(self, index: int) -> Pixels:
        raise NotImplementedError


class _CentreCrops(_Crops):
    def pixels(self, index: int) -> Pixels:
        return centre_crop(self.files.path(index), self.size)


class _RandomCrops(_Crops):
    def __init__(self, files: ImageFiles, size: int, seed: int, epoch: int) -> None:
        super().__init__(files, size)
        self._draw = (seed, epoch)

    def pixels(self, index: int) -> Pixels:
        generator = np.random.default_rng((*self._draw, index))
        return random_crop(self.files.path(index), self.size, generator)


def _load(crops: _Crops, batches: Sequence[list[int]], loading: Loading) -> Iterator[Images]:
    """Yield batches of images on the device, normalized; each process is two batches ahead."""
    loader = DataLoader(
        crops,
        batch_sampler=batches,
        num_workers=loading.processes,
        pin_memory=loading.device.type == "cuda",
        # Forked: they share the list of files, and start at once.
        multiprocessing_context="fork" if loading.processes else None,
        worker_init_fn=partial(_end_with, os.getpid()),
    )
    for pixels, labels in loader:
        yield Images(
            # Pixel by pixel in memory, as they were decoded: PyTorch's channels_last.
            pixels.to(loading.device, non_blocking=True).permute(0, 3, 1, 2),
            labels.to(loading.device, non_blocking=True),
            MEAN,
            DEVIATION,
        ).take(slice(None))


def _end_with(parent: int, _: int) -> None:
    """Have a loading process end with its training process, even if that is killed.

    It holds copies of the sockets to the other ranks: only once it has ended too do they notice.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training process
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
