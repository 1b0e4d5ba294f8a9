"""Batches of image files: read, decoded and cropped ahead of time by loading processes.

The order of an epoch is drawn for all ranks, and the crop of an image depends on the seed, the
epoch and the image alone: any number of ranks and of processes sees the same batches. Pixels are
bytes until they are on the device, where they are normalized.

Training uses the usual augmentation for ImageNet (Szegedy et al.: Going Deeper with Convolutions,
2014). A crop has 8 to 100 % of the area, and its sides have a ratio of 3/4 to 4/3. It is resized to
a square, and mirrored half of the time. Resizing is Pillow's: bilinear and antialiased. Files are
decoded at full size. Decoding JPEG at half the size is faster for large images, but changes the
pixels, and most of ImageNet's images, about 500x375 pixels, are too small for that.
"""

import ctypes
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from mlbench_worker.data.image_folder import ImageFiles
from mlbench_worker.data.images import Images, shares_of_epoch
from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.rank_process import DataError

Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge in pixels, with fractions."""

# Mean and standard deviation of ImageNet's pixels: red, green, blue, from 0 to 255.
MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
DEVIATION = (0.229 * 255, 0.224 * 255, 0.225 * 255)

_RATIO = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class Loading:
    """How a rank loads its images."""

    size: int
    """Width and height, in pixels, of the images for the model."""
    processes: int
    """Number of loading processes; 0: the training process loads the images itself."""
    device: torch.device
    """Device on which the images are placed."""


def training_batches(
    files: ImageFiles,
    batch_size: int,
    world: World,
    seed: int,
    epoch: int,
    loading: Loading,
    first: int = 0,
) -> Iterator[Images]:
    """Return this rank's shares of an epoch's batches: random crops, mirrored half of the time.

    ``batch_size`` counts the images of all ranks. ``shares_of_epoch`` describes order and errors.
    Batches before ``first`` are done, and are not loaded.
    """
    generator = torch.Generator().manual_seed((seed << 20) + epoch)
    shares = shares_of_epoch(len(files), batch_size, world, generator)

    def crop(path: Path, index: int) -> Pixels:
        return random_crop(path, loading.size, np.random.default_rng((seed, epoch, index)))

    return _load(_Crops(files, crop), shares[first:].tolist(), loading)


def validation_batches(files: ImageFiles, batch_size: int, loading: Loading) -> Iterator[Images]:
    """Return the centres of all images, in order, at most ``batch_size`` at a time."""
    every = range(len(files))
    batches = [list(every[first : first + batch_size]) for first in every[::batch_size]]
    return _load(_Crops(files, lambda path, _: centre_crop(path, loading.size)), batches, loading)


class _Crops(Dataset[tuple[torch.Tensor, int]]):
    """Crops of image files ``[size, size, 3]``, with their labels."""

    def __init__(self, files: ImageFiles, crop: Callable[[Path, int], Pixels]) -> None:
        self._files = files
        self._crop = crop

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = self._crop(self._files.path(index), index)
        return torch.from_numpy(pixels), int(self._files.labels[index])


def _load(crops: _Crops, batches: Sequence[list[int]], loading: Loading) -> Iterator[Images]:
    """Yield batches of images on the device, normalized. Each process is two batches ahead."""
    loader = DataLoader(
        crops,
        batch_sampler=batches,
        num_workers=loading.processes,
        pin_memory=loading.device.type == "cuda",
        # Forked processes share the list of files, and start quickly.
        multiprocessing_context="fork" if loading.processes else None,
        worker_init_fn=partial(_end_with, os.getpid()),
    )
    for pixels, labels in loader:
        yield Images(
            # A view in PyTorch's channels_last format, without copying the decoded pixels.
            pixels.to(loading.device, non_blocking=True).permute(0, 3, 1, 2),
            labels.to(loading.device, non_blocking=True),
            MEAN,
            DEVIATION,
        ).take(slice(None))


def _end_with(parent: int, _: int) -> None:
    """Have a loading process end with its training process, even if that is killed.

    A loading process has copies of the sockets to the other ranks, which notice a lost rank only
    after all copies are closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training process
    pr_set_pdeathsig = 1  # see prctl(2)
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def random_crop(path: Path, size: int, generator: np.random.Generator) -> Pixels:
    """Return a random part of an image file as ``[size, size, 3]``, mirrored half of the time."""
    image = _decode(path)
    box = random_box(image.width, image.height, generator)
    part = image.resize((size, size), Image.Resampling.BILINEAR, box)
    mirrored = generator.random() < 1 / 2
    return np.array(part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else part)


def centre_crop(path: Path, size: int) -> Pixels:
    """Return the centre of an image file as ``[size, size, 3]``.

    For a size of 224, the image is resized so that its shorter side has 256 pixels; for other
    sizes in proportion.
    """
    image = _decode(path)
    scale = round(size * (256 / 224)) / min(image.size)
    box = centre_box(image.width, image.height, size / scale, size / scale)
    return np.array(image.resize((size, size), Image.Resampling.BILINEAR, box))


def random_box(width: int, height: int, generator: np.random.Generator) -> Box:
    """Draw the part of an image to crop.

    Area and logarithm of the ratio are drawn uniformly. If ten boxes do not fit into a very long or
    tall image, its centre is taken, in the nearest ratio.
    """
    for _ in range(10):
        area = width * height * generator.uniform(0.08, 1.0)
        ratio = math.exp(generator.uniform(math.log(_RATIO[0]), math.log(_RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left = int(generator.integers(width - w + 1))
            upper = int(generator.integers(height - h + 1))
            return left, upper, left + w, upper + h
    w = min(width, max(1, round(height * _RATIO[1])))
    h = min(height, max(1, round(width / _RATIO[0])))
    return centre_box(width, height, w, h)


def centre_box(width: int, height: int, box_width: float, box_height: float) -> Box:
    """Return the box of ``box_width`` and ``box_height`` in the middle of an image."""
    left, upper = (width - box_width) / 2, (height - box_height) / 2
    return left, upper, left + box_width, upper + box_height


def _decode(path: Path) -> Image.Image:
    """Return an image file, converted to RGB; raise a DataError if it cannot be read."""
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    # Pillow raises these for files that are damaged, not images, or absurdly large.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"the image {path} cannot be read: {error}") from error
