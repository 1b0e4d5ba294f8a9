"""Crops are drawn as the papers say, from images of any colours and size, and only from images."""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from worker.data.crops import Box, centre_crop, random_box, random_crop
from worker.data.folder import DataError

_DRAWS = 4000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def ramp(tmp_path: Path) -> Path:
    """An image of 200x100 pixels that gets brighter from left to right."""
    row = np.linspace(0, 255, 200).astype(np.uint8)
    path = tmp_path / "ramp.png"
    Image.fromarray(np.tile(row, (100, 1))).convert("RGB").save(path)
    return path


# --- Where to crop. ---


def test_area_and_ratio_of_crops_are_within_bounds_and_cover_them() -> None:
    generator = rng()
    boxes = np.array([random_box(1000, 800, generator) for _ in range(_DRAWS)])
    left, upper, right, lower = boxes.T
    assert left.min() >= 0
    assert upper.min() >= 0
    assert right.max() <= 1000
    assert lower.max() <= 800
    areas = (right - left) * (lower - upper) / (1000 * 800)
    ratios = (right - left) / (lower - upper)
    # To a whole pixel.
    assert 0.079 < areas.min() < 0.09
    assert 0.95 < areas.max() <= 1.0
    assert 3 / 4 - 0.01 < ratios.min() < 0.76
    assert 1.32 < ratios.max() < 4 / 3 + 0.01


def test_area_is_uniform_and_ratio_on_a_logarithmic_scale() -> None:
    # Where every draw fits, nothing is drawn again: a small crop of a large image.
    generator = rng()
    boxes = np.array([random_box(3000, 3000, generator) for _ in range(_DRAWS)])
    left, upper, right, lower = boxes.T
    areas = (right - left) * (lower - upper) / 3000**2
    small = areas[areas < 0.5]
    counts, _ = np.histogram(small, bins=4, range=(0.08, 0.5))
    assert counts == pytest.approx(np.full(4, len(small) / 4), rel=0.15)
    wide = np.log((right - left) / (lower - upper))[areas < 0.5]
    assert wide.mean() == pytest.approx(0, abs=0.02)
    assert wide.std() == pytest.approx(math.log(4 / 3) / math.sqrt(3), rel=0.05)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1000, 10), (493.5, 0, 506.5, 10)),
        ((10, 1000), (0, 493.5, 10, 506.5)),
        ((1, 1), (0, 0, 1, 1)),
    ],
)
def test_of_a_very_long_image_the_centre_is_taken(size: tuple[int, int], expected: Box) -> None:
    boxes = [random_box(*size, rng(seed)) for seed in range(20)]
    assert expected in boxes
    for left, upper, right, lower in boxes:
        assert 0 <= left < right <= size[0]
        assert 0 <= upper < lower <= size[1]


def test_half_of_the_crops_are_mirrored(ramp: Path) -> None:
    crops = [random_crop(ramp, 8, rng(seed)).astype(int) for seed in range(400)]
    rising = [crop[0, -1, 0] > crop[0, 0, 0] for crop in crops]
    assert 160 < sum(rising) < 240


def test_the_same_random_numbers_give_the_same_crop(ramp: Path) -> None:
    assert np.array_equal(random_crop(ramp, 32, rng(5)), random_crop(ramp, 32, rng(5)))
    assert not np.array_equal(random_crop(ramp, 32, rng(5)), random_crop(ramp, 32, rng(6)))


# --- What becomes of the pixels. ---


def test_the_centre_is_in_the_middle_of_the_shorter_side_at_256(ramp: Path) -> None:
    crop = centre_crop(ramp, 224)
    assert crop.shape == (224, 224, 3)
    # The image becomes 512x256; the crop shows its columns 144 to 367.
    brightness = crop[112, :, 0].astype(float)
    assert brightness[0] == pytest.approx(255 * 144.5 / 512, abs=1.5)
    assert brightness[-1] == pytest.approx(255 * 367.5 / 512, abs=1.5)


def test_a_smaller_image_is_enlarged(tmp_path: Path) -> None:
    Image.new("RGB", (3, 2), (10, 20, 30)).save(tmp_path / "small.png")
    for crop in (
        centre_crop(tmp_path / "small.png", 64),
        random_crop(tmp_path / "small.png", 64, rng()),
    ):
        assert crop.shape == (64, 64, 3)
        assert (crop == [10, 20, 30]).all()


def test_resizing_does_not_skip_pixels(tmp_path: Path) -> None:
    # Black and white columns, each a pixel wide: without antialiasing some crop would be of one.
    stripes = np.zeros((512, 512, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "stripes.png")
    crop = centre_crop(tmp_path / "stripes.png", 56).astype(float)
    assert crop.min() > 110
    assert crop.max() < 145


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        ("RGB", "jpg"),
        ("L", "jpg"),
        ("CMYK", "jpg"),
        ("P", "png"),
        ("1", "png"),
        ("LA", "png"),
        ("RGBA", "png"),
    ],
)
def test_any_colours_become_rgb(tmp_path: Path, mode: str, suffix: str) -> None:
    path = tmp_path / f"image.{suffix}"
    Image.new("RGB", (40, 30), "white").convert(mode).save(path)
    for crop in (centre_crop(path, 16), random_crop(path, 16, rng())):
        assert crop.shape == (16, 16, 3)
        assert crop.dtype == np.uint8
        assert crop.min() >= 253


def test_the_name_need_not_tell_the_format(tmp_path: Path) -> None:
    # One of ImageNet's files is a PNG.
    path = tmp_path / "image.JPEG"
    Image.new("RGB", (40, 30), "white").save(path, format="png")
    assert centre_crop(path, 16).min() == 255


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    whole, cut, text = (tmp_path / name for name in ("whole.jpg", "cut.jpg", "text.jpg"))
    noise = rng().integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(whole)
    cut.write_bytes(whole.read_bytes()[:1500])
    text.write_text("404 Not Found")
    for path in (cut, text, tmp_path / "missing.jpg"):
        with pytest.raises(DataError, match=f"the image {path} cannot be read: "):
            random_crop(path, 16, rng())
