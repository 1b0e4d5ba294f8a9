"""Image files become batches: crops, order, and errors for broken files."""

import os
import re
import traceback
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from PIL import Image

from mlbench_worker.data.image_folder import ImageFiles, read_image_folder
from mlbench_worker.data.image_loader import (
    DEVIATION,
    MEAN,
    Box,
    Loading,
    centre_crop,
    random_box,
    random_crop,
    training_batches,
    validation_batches,
)
from mlbench_worker.data.images import Images
from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.rank_process import DataError
from tests.conftest import wait_for
from tests.support.image_files import make_image_folder
from tests.support.ranks import start_ranks

_DRAWS = 4000


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_area_and_ratio_of_crops_span_their_ranges() -> None:
    generator = rng()
    boxes = np.array([random_box(1000, 800, generator) for _ in range(_DRAWS)])
    left, upper, right, lower = boxes.T
    assert boxes.min() >= 0
    assert (right.max(), lower.max()) <= (1000, 800)
    areas = (right - left) * (lower - upper) / (1000 * 800)
    ratios = (right - left) / (lower - upper)
    # Crops have whole pixels, so the bounds are approximate.
    assert 0.079 < areas.min() < 0.09
    assert 0.95 < areas.max() <= 1.0
    assert 3 / 4 - 0.01 < ratios.min() < 0.76
    assert 1.32 < ratios.max() < 4 / 3 + 0.01


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1000, 10), (493.5, 0, 506.5, 10)),
        ((10, 1000), (0, 493.5, 10, 506.5)),
        ((1, 1), (0, 0, 1, 1)),
    ],
)
def test_a_very_long_image_is_cropped_at_its_centre(size: tuple[int, int], expected: Box) -> None:
    boxes = [random_box(*size, rng(seed)) for seed in range(20)]
    assert expected in boxes
    for left, upper, right, lower in boxes:
        assert 0 <= left < right <= size[0]
        assert 0 <= upper < lower <= size[1]


def test_the_centre_crop_scales_the_shorter_side_to_256(tmp_path: Path) -> None:
    row = np.linspace(0, 255, 200).astype(np.uint8)  # brighter from left to right
    Image.fromarray(np.tile(row, (100, 1))).save(tmp_path / "ramp.png")
    crop = centre_crop(tmp_path / "ramp.png", 224)
    assert crop.shape == (224, 224, 3)
    # The image is scaled to 512x256, and the crop has its columns 144 to 367.
    brightness = crop[112, :, 0].astype(float)
    assert brightness[0] == pytest.approx(255 * 144.5 / 512, abs=1.5)
    assert brightness[-1] == pytest.approx(255 * 367.5 / 512, abs=1.5)


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [("RGB", "jpg"), ("L", "jpg"), ("CMYK", "jpg"), ("P", "png"), ("1", "png"), ("RGBA", "png")],
)
def test_any_colours_become_rgb(tmp_path: Path, mode: str, suffix: str) -> None:
    path = tmp_path / f"image.{suffix}"
    Image.new("RGB", (40, 30), "white").convert(mode).save(path)
    for crop in (centre_crop(path, 16), random_crop(path, 16, rng())):
        assert crop.shape == (16, 16, 3)
        assert crop.dtype == np.uint8
        assert crop.min() >= 253


def test_a_broken_image_is_reported_with_its_path(tmp_path: Path) -> None:
    cut, text = tmp_path / "cut.jpg", tmp_path / "text.jpg"
    Image.fromarray(rng().integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(cut)
    os.truncate(cut, 1500)
    text.write_text("404 Not Found")
    for path in (cut, text, tmp_path / "missing.jpg"):
        with pytest.raises(DataError, match=f"the image {path} cannot be read: "):
            random_crop(path, 16, rng())


_CPU = torch.device("cpu")
_IMAGES = 22  # for training, and 22 more for validation
_BATCH = 5

_LOAD_FOR_EVER = """
import sys
from pathlib import Path

import torch

from mlbench_worker.data.image_folder import read_image_folder
from mlbench_worker.data.image_loader import Loading, training_batches
from mlbench_worker.ranks.distributed import World

files = read_image_folder(Path(sys.argv[1])).train
for batch in training_batches(files, 1, World(), 0, 0, Loading(32, 1, torch.device("cpu"))):
    pass
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ImageFiles:
    folder = make_image_folder(tmp_path_factory.mktemp("images"), images=_IMAGES // 2)
    return read_image_folder(folder).train


def training(
    files: ImageFiles,
    world: World = World(),  # noqa: B008 - frozen
    processes: int = 0,
) -> list[Images]:
    return list(training_batches(files, _BATCH, world, 3, 0, Loading(32, processes, _CPU)))


def validation(files: ImageFiles, size: int, processes: int = 0) -> list[Images]:
    return list(validation_batches(files, size, Loading(32, processes, _CPU)))


def assert_same(some: list[Images], others: list[Images]) -> None:
    for one, other in zip(some, others, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)


# The test uses more loader processes than there are cores.
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("processes", [1, 3])
def test_any_number_of_processes_loads_the_same_batches(files: ImageFiles, processes: int) -> None:
    assert_same(training(files, processes=processes), training(files))
    assert_same(validation(files, 4, processes), validation(files, 4))


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_share_the_batches_of_a_single_process(files: ImageFiles, size: int) -> None:
    shares = [training(files, World(rank, size)) for rank in range(size)]
    joined = [
        Images(
            torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts])
        )
        for parts in zip(*shares, strict=True)
    ]
    assert_same(joined, training(files))


def test_an_image_is_augmented_differently_in_the_next_epoch(files: ImageFiles) -> None:
    alone = ImageFiles(files.folder, files.names[:1], files.labels[:1])
    loading = Loading(32, 0, _CPU)
    looks = [next(training_batches(alone, 1, World(), 0, epoch, loading)) for epoch in range(5)]
    assert len({look.images.numpy().tobytes() for look in looks}) == 5


def test_images_are_normalized_and_in_channels_last_order(files: ImageFiles) -> None:
    batch = validation(files, _IMAGES)[0]
    assert batch.images.shape == (_IMAGES, 3, 32, 32)
    assert batch.images.dtype == torch.float32
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    # Class 0 is red: its red pixels are from 127 to 254, all other values are below 128.
    bytes_ = (127 + 63.5, 63.5, 63.5)
    expected = [(b - m) / d for b, m, d in zip(bytes_, MEAN, DEVIATION, strict=True)]
    red = batch.images[batch.labels == 0].mean(dim=(0, 2, 3))
    assert red.tolist() == pytest.approx(expected, abs=0.1)


def test_every_image_is_validated_once_in_order(files: ImageFiles) -> None:
    batches = validation(files, 4)
    assert [len(batch) for batch in batches] == [4, 4, 4, 4, 4, 2]
    assert torch.cat([batch.labels for batch in batches]).tolist() == files.labels.tolist()


@pytest.mark.parametrize("processes", [0, 1])
def test_an_unreadable_file_is_reported_with_its_path(tmp_path: Path, processes: int) -> None:
    folder = make_image_folder(tmp_path, images=2)
    broken = folder / "val" / "n02123045" / "broken.JPEG"
    broken.write_bytes(b"\xff\xd8\xff")
    with pytest.raises(DataError, match=re.escape(f"the image {broken} cannot be read")) as raised:
        validation(read_image_folder(folder).validation, 2, processes)
    # Clear the traceback, which keeps the loader alive. A later garbage collection would wait five
    # seconds for the loading process.
    traceback.clear_frames(raised.tb)


def test_loading_processes_end_with_a_killed_training_process(tmp_path: Path) -> None:
    # The images are pipes without a writer, which block like a file system that does not respond.
    for part in ("train", "val"):
        (tmp_path / part / "class").mkdir(parents=True)
        for number in range(4):
            os.mkfifo(tmp_path / part / "class" / f"{number}.JPEG")
    [rank] = start_ranks(tmp_path, 1, "-c", _LOAD_FOR_EVER, str(tmp_path))
    parent = psutil.Process(rank.pid)
    try:
        wait_for(parent.children, what="the loading process has started")
        loaders = parent.children()
    finally:
        rank.kill()
    _, alive = psutil.wait_procs(loaders, timeout=10)
    for loader in alive:
        loader.kill()
    assert not alive
