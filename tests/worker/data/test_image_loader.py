"""Batches are the same for any number of ranks and processes, and processes end with their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from tests.conftest import wait_for
from tests.worker.data.image_files import make_image_folder
from worker.data.folder import DataError
from worker.data.image_folder import ImageFiles, read_image_folder
from worker.data.image_loader import (
    DEVIATION,
    MEAN,
    Loading,
    TrainingBatches,
    ValidationBatches,
    loading_processes,
)
from worker.data.images import Images
from worker.training.distributed import World

_CPU = torch.device("cpu")
_IMAGES = 22  # to train on, and as many to validate on
_BATCH = 5

_LOAD_FOR_EVER = """
import sys
from pathlib import Path

import torch

from worker.data.image_folder import read_image_folder
from worker.data.image_loader import Loading, TrainingBatches
from worker.training.distributed import World

files = read_image_folder(Path(sys.argv[1])).train
for batch in TrainingBatches(files, 1, World(), 0, 0, Loading(32, 1, torch.device("cpu"))):
    pass
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("images"), images=_IMAGES // 2)


@pytest.fixture(scope="module")
def files(folder: Path) -> ImageFiles:
    return read_image_folder(folder).train


def training(
    files: ImageFiles,
    world: World = World(),  # noqa: B008 - frozen
    epoch: int = 0,
    seed: int = 3,
    processes: int = 0,
) -> list[Images]:
    return list(TrainingBatches(files, _BATCH, world, seed, epoch, Loading(32, processes, _CPU)))


def validation(files: ImageFiles, size: int, processes: int = 0) -> list[Images]:
    return list(ValidationBatches(files, size, Loading(32, processes, _CPU)))


def assert_same(some: list[Images], others: list[Images]) -> None:
    for one, other in zip(some, others, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more than there are cores
@pytest.mark.parametrize("processes", [1, 3])
def test_any_number_of_processes_loads_the_same_batches(files: ImageFiles, processes: int) -> None:
    assert_same(training(files, processes=processes), training(files))
    assert_same(validation(files, 4, processes), validation(files, 4))


@pytest.mark.parametrize("size", [2, 3])
def test_the_ranks_together_see_the_batches_of_one(files: ImageFiles, size: int) -> None:
    shares = [training(files, World(rank, size)) for rank in range(size)]
    joined = [
        Images(
            torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts])
        )
        for parts in zip(*shares, strict=True)
    ]
    assert_same(joined, training(files))


def test_an_epoch_has_whole_batches_of_different_images(files: ImageFiles) -> None:
    batches = TrainingBatches(files, _BATCH, World(), 0, 0, Loading(32, 0, _CPU))
    assert len(batches) == 4
    assert batches.batch_size == _BATCH
    images = torch.cat([batch.images for batch in batches])
    assert len(images) == 20
    assert len({image.numpy().tobytes() for image in images}) == 20


def test_epochs_and_seeds_differ(files: ImageFiles) -> None:
    first = torch.cat([batch.images for batch in training(files)])
    for other in (training(files, epoch=1), training(files, seed=4)):
        assert not torch.equal(first, torch.cat([batch.images for batch in other]))


def test_an_image_looks_otherwise_in_the_next_epoch(folder: Path, tmp_path: Path) -> None:
    [image] = (folder / "train" / "n01440764").glob("*_0.JPEG")
    for part in ("train", "val"):
        (tmp_path / part / "n01440764").mkdir(parents=True)
        os.link(image, tmp_path / part / "n01440764" / "a.JPEG")
    alone = read_image_folder(tmp_path).train
    looks = {
        next(iter(TrainingBatches(alone, 1, World(), 0, epoch, Loading(32, 0, _CPU))))
        .images.numpy()
        .tobytes()
        for epoch in range(5)
    }
    assert len(looks) == 5


def test_a_batch_that_cannot_be_shared_out_is_refused(files: ImageFiles) -> None:
    with pytest.raises(DataError, match=f"a batch of {_IMAGES + 1} must hold"):
        TrainingBatches(files, _IMAGES + 1, World(), 0, 0, Loading(32, 0, _CPU))


def test_images_are_normalized_and_lie_pixel_by_pixel(files: ImageFiles) -> None:
    batch = validation(files, _IMAGES)[0]
    assert batch.images.shape == (_IMAGES, 3, 32, 32)
    assert batch.images.dtype == torch.float32
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    # Class 0 is red: its red pixels are from 127 to 254, all others of an image below 128.
    bytes_ = (127 + 63.5, 63.5, 63.5)
    expected = [(b - m) / d for b, m, d in zip(bytes_, MEAN, DEVIATION, strict=True)]
    red = batch.images[batch.labels == 0].mean(dim=(0, 2, 3))
    assert red.tolist() == pytest.approx(expected, abs=0.1)


def test_every_image_is_validated_once_in_order(files: ImageFiles) -> None:
    batches = validation(files, 4)
    assert [len(batch) for batch in batches] == [4, 4, 4, 4, 4, 2]
    assert torch.cat([batch.labels for batch in batches]).tolist() == files.labels.tolist()


def test_a_rank_without_images_has_no_batches(files: ImageFiles) -> None:
    shards = [files.shard(World(rank, 2 * _IMAGES)) for rank in range(2)]
    assert [len(validation(shard, 4)) for shard in shards] == [0, 1]


@pytest.mark.parametrize("processes", [0, 1])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, processes: int) -> None:
    folder = make_image_folder(tmp_path, images=2)
    broken = folder / "val" / "n02123045" / "broken.JPEG"
    broken.write_bytes(b"\xff\xd8\xff")
    with pytest.raises(DataError, match=re.escape(f"the image {broken} cannot be read")):
        validation(read_image_folder(folder).validation, 2, processes)


def test_there_is_at_most_one_process_for_each_core() -> None:
    cores = len(os.sched_getaffinity(0))
    assert [loading_processes(wanted) for wanted in (0, 1, cores + 1)] == [0, 1, cores]


def test_the_processes_end_with_a_killed_training_process(tmp_path: Path) -> None:
    # From a pipe that nobody writes to: as it is with a file system that does not answer.
    for part in ("train", "val"):
        (tmp_path / part / "class").mkdir(parents=True)
        for number in range(4):
            os.mkfifo(tmp_path / part / "class" / f"{number}.JPEG")
    process = subprocess.Popen([sys.executable, "-c", _LOAD_FOR_EVER, str(tmp_path)])
    try:
        parent = psutil.Process(process.pid)
        wait_for(parent.children, what="the loading process has started")
        loaders = parent.children()
    finally:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(loaders, timeout=10)
    for loader in alive:
        loader.kill()
    assert not alive
