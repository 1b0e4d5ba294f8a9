"""Batches of image files: read, decoded and cropped ahead of time, by processes of their own.

The order of an epoch is drawn for all ranks, and the crop of an image depends on the seed, the
epoch and the image alone: any number of ranks and of processes sees the same batches. Pixels stay
bytes until they are on the device, where they are normalized.

Training uses the usual augmentation for ImageNet (Szegedy et al.: Going Deeper with Convolutions,
2014): a crop of 8 to 100 % of the area, its sides in a ratio of 3/4 to 4/3, resized to a square,
and mirrored half of the time. Resizing is bilinear and antialiased, as is Pillow's. Files are
decoded whole: decoding JPEG at half its size is faster for large images, but changes the pixels,
and most of ImageNet's images, 500x375 pixels or so, are too small for that.
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
from mlbench_worker.ranks.process import DataError

Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge, in pixels of an image, and parts of pixels."""

# Mean and standard deviation of ImageNet's pixels: red, green, blue, from 0 to 255.
MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
DEVIATION = (0.229 * 255, 0.224 * 255, 0.225 * 255)

_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)
_LOG_RATIO = (math.log(_RATIO[0]), math.log(_RATIO[1]))
_ATTEMPTS = 10
# An image of 224 pixels is the centre of one whose shorter side has 256.
_MARGIN = 256 / 224

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

    ``batch_size`` counts the images of all ranks; order and errors are those of
    ``shares_of_epoch``. Those before the batch ``first`` are done, and not loaded.
    """
    generator = torch.Generator().manual_seed((seed << 20) + epoch)
    shares = shares_of_epoch(len(files), batch_size, world, generator)

    def crop(path: Path, index: int) -> Pixels:
        return random_crop(path, loading.size, np.random.default_rng((seed, epoch, index)))

    return _load(_Crops(files, crop), shares[first:].tolist(), loading)


def validation_batches(files: ImageFiles, batch_size: int, loading: Loading) -> Iterator[Images]:
    """Return the centres of all given images, in order, at most ``batch_size`` at a time."""
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


def random_crop(path: Path, size: int, generator: np.random.Generator) -> Pixels:
    """Return a random part of an image file as ``[size, size, 3]``, mirrored half of the time."""

    def crop(image: Image.Image) -> Image.Image:
        box = random_box(image.width, image.height, generator)
        part = image.resize((size, size), Image.Resampling.BILINEAR, box)
        mirrored = generator.random() < 1 / 2
        return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else part

    return _decode(path, crop)


def centre_crop(path: Path, size: int) -> Pixels:
    """Return the centre of an image file as ``[size, size, 3]``.

    For a size of 224, the image is resized so that its shorter side has 256 pixels; in proportion
    for any other.
    """

    def crop(image: Image.Image) -> Image.Image:
        scale = round(size * _MARGIN) / min(image.size)
        box = centre_box(image.width, image.height, size / scale, size / scale)
        return image.resize((size, size), Image.Resampling.BILINEAR, box)

    return _decode(path, crop)


def random_box(width: int, height: int, generator: np.random.Generator) -> Box:
    """Draw the part of an image of that size to crop.

    Area and logarithm of the ratio are drawn uniformly. Of a very long or tall image, where what is
    drawn does not fit, the centre is taken in the nearest ratio.
    """
    for _ in range(_ATTEMPTS):
        area = width * height * generator.uniform(*_AREA)
        ratio = math.exp(generator.uniform(*_LOG_RATIO))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left = int(generator.integers(width - w + 1))
            upper = int(generator.integers(height - h + 1))
            return left, upper, left + w, upper + h
    w = min(width, max(1, round(height * _RATIO[1])))
    h = min(height, max(1, round(width / _RATIO[0])))
    return centre_box(width, height, w, h)


def centre_box(width: int, height: int, box_width: float, box_height: float) -> Box:
    """Return the box of that size in the middle of an image of that size."""
    left, upper = (width - box_width) / 2, (height - box_height) / 2
    return left, upper, left + box_width, upper + box_height


def _decode(path: Path, crop: Callable[[Image.Image], Image.Image]) -> Pixels:
    """Return the crop of an image file, converted to RGB; a DataError if it cannot be read."""
    try:
        with Image.open(path) as image:
            return np.array(crop(image.convert("RGB")))
    # What Pillow raises for a file that is broken, is no image, or is absurdly large.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"the image {path} cannot be read: {error}") from error
