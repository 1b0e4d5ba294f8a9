"""What of an image file is looked at: a random crop to train on, the centre to validate on.

The usual augmentation for ImageNet (Szegedy et al.: Going Deeper with Convolutions, 2014): a crop
of 8 to 100 % of the area, its sides in a ratio of 3/4 to 4/3, resized to a square, and mirrored
half of the time. Resizing is bilinear and antialiased, as is Pillow's.

Files are decoded whole. JPEG could be decoded at a half or less of its size, which takes about half
the time for an image of 1,600x1,200 pixels, but changes the pixels; and most of ImageNet's images,
500x375 pixels or so, are too small for that.
"""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from worker.data.folder import DataError

Pixels = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge, in pixels of an image, and parts of pixels."""

_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)
_LOG_RATIO = (math.log(_RATIO[0]), math.log(_RATIO[1]))
_ATTEMPTS = 10
# An image of 224 pixels is the centre of one whose shorter side has 256.
_MARGIN = 256 / 224


def random_crop(path: Path, size: int, generator: np.random.Generator) -> Pixels:
    """Return a random part of an image file as ``[size, size, 3]``, mirrored half of the time.

    Raises:
        DataError: the file cannot be read.
    """

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

    Raises:
        DataError: the file cannot be read.
    """

    def crop(image: Image.Image) -> Image.Image:
        scale = round(size * _MARGIN) / min(image.size)
        box = centre_box(image.width, image.height, size / scale, size / scale)
        return image.resize((size, size), Image.Resampling.BILINEAR, box)

    return _decode(path, crop)


def random_box(width: int, height: int, generator: np.random.Generator) -> Box:
    """Return where to crop an image of that size.

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
    """Return the part of an image file that ``crop`` makes of it, whatever its colours, as RGB."""
    try:
        with Image.open(path) as image:
            return np.array(crop(image.convert("RGB")))
    # What Pillow raises for a file that is broken, is no image, or is absurdly large.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"the image {path} cannot be read: {error}") from error
