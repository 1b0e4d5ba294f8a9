"""An image folder is listed in the same order everywhere, and faults in it are reported."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mlbench_worker.data.image_folder import ImageFiles, read_image_folder
from mlbench_worker.ranks.rank_process import DataError
from tests.support.image_files import COLOURS, make_image_folder
from tests.support.ranks import finish, start_ranks

_CHECK = """
import sys
from pathlib import Path

import torch

from mlbench_worker.data.image_folder import check_same_everywhere, read_image_folder
from mlbench_worker.ranks.distributed import join_world

with join_world() as world:
    data = read_image_folder(Path(sys.argv[1 + world.rank]))
    check_same_everywhere(data, world)
    world.sum_(torch.zeros(1))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_image_folder(tmp_path / "imagenet", images=3)


def paths(files: ImageFiles) -> list[Path]:
    return [files.path(index) for index in range(len(files))]


def test_every_image_is_listed_in_order_with_its_class(folder: Path) -> None:
    data = read_image_folder(folder)
    assert data.classes == tuple(sorted(COLOURS))
    assert paths(data.train) == sorted((folder / "train").glob("*/*"))
    assert paths(data.validation) == sorted((folder / "val").glob("*/*"))
    for files in (data.train, data.validation):
        named = [data.classes.index(path.parent.name) for path in paths(files)]
        assert files.labels.tolist() == named == [0, 0, 0, 1, 1, 1]


def test_the_checksum_covers_only_the_names(folder: Path) -> None:
    before = read_image_folder(folder).listing_sha256
    image = next((folder / "val").glob("*/*"))
    image.write_bytes(b"other pixels")
    assert read_image_folder(folder).listing_sha256 == before
    image.rename(image.with_name("other.jpg"))
    assert read_image_folder(folder).listing_sha256 != before


def test_only_images_are_found_in_any_alphabet(folder: Path) -> None:
    (folder / "val" / "LICENSE").touch()
    (folder / "val" / "n01440764" / "notes.txt").touch()
    image = folder / "val" / "n01440764" / "Käfer-虫.PNG"
    image.touch()
    found = paths(read_image_folder(folder).validation)
    assert len(found) == 7
    assert image in found


def without_a_part(folder: Path) -> None:
    shutil.rmtree(folder / "val")


def without_images(folder: Path) -> None:
    shutil.rmtree(folder / "val" / "n02123045")
    (folder / "val" / "n02123045").mkdir()


def with_classes_of_one_part(folder: Path) -> None:
    for number in range(5):
        shutil.copytree(folder / "train" / "n01440764", folder / "train" / f"n{number}")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (without_a_part, r"folder .*/val not found\..*MLBENCH_DATASETS"),
        (without_images, r"/val has classes without .*: n02123045$"),
        (with_classes_of_one_part, "the same classes: only n0, n1, n2 and 2 more is in"),
    ],
)
def test_a_fault_in_a_folder_is_reported(
    folder: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(folder)
    with pytest.raises(DataError, match=said):
        read_image_folder(folder)


def test_ranks_with_different_files_do_not_train(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    alike = start_ranks(tmp_path, 2, "-c", _CHECK, str(folder), str(other))
    finish(alike)

    (other / "train" / "n01440764" / "n01440764_0.JPEG").unlink()
    ranks = start_ranks(tmp_path, 2, "-c", _CHECK, str(folder), str(other))
    outputs = [rank.output() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert "DataError: rank 1 of 2 does not have the files of rank 0" in outputs[1][1]
