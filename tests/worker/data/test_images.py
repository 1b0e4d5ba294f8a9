"""Batches do not depend on the number of ranks, and are shuffled, shifted and mirrored."""

import pytest
import torch

from mlbench_worker.data.images import Images, augmented_batches
from mlbench_worker.ranks.distributed import World
from mlbench_worker.ranks.rank_process import DataError

_COUNT = 50
_BATCH = 8


@pytest.fixture
def data() -> Images:
    """Images with a single pixel of ink in the middle, whose darkness is the label."""
    images = torch.zeros(_COUNT, 1, 5, 5)
    images[:, 0, 2, 2] = torch.arange(1.0, _COUNT + 1)
    return Images(images, torch.arange(1, _COUNT + 1))


def batches(
    data: Images,
    rank: int = 0,
    size: int = 1,
    epoch: int = 0,
    *,
    shift: int = 1,
    flip: bool = False,
) -> list[Images]:
    world = World(rank, size)
    shares = list(augmented_batches(data, _BATCH, world, 3, epoch, shift=shift, flip=flip))
    assert len(shares) == _COUNT // _BATCH
    return shares


@pytest.mark.parametrize("size", [2, 3, 8])
def test_ranks_share_the_batches_of_a_single_process(data: Images, size: int) -> None:
    alone = batches(data, flip=True)
    shares = [batches(data, rank, size, flip=True) for rank in range(size)]
    for whole, *parts in zip(alone, *shares, strict=True):
        assert torch.equal(torch.cat([part.images for part in parts]), whole.images)
        assert torch.equal(torch.cat([part.labels for part in parts]), whole.labels)


def test_each_epoch_has_every_image_once_in_a_new_order(data: Images) -> None:
    first = torch.cat([batch.labels for batch in batches(data, epoch=0)])
    again = torch.cat([batch.labels for batch in batches(data, epoch=0)])
    second = torch.cat([batch.labels for batch in batches(data, epoch=1)])
    assert len(set(first.tolist())) == len(first) == 48
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_images_are_shifted_by_up_to_a_pixel_and_keep_their_labels(data: Images) -> None:
    places = set()
    for epoch in range(4):
        for batch in batches(data, epoch=epoch):
            assert batch.images.shape == (_BATCH, 1, 5, 5)
            assert torch.equal(batch.images.sum(dim=(1, 2, 3)), batch.labels.float())
            places |= {tuple(place) for place in batch.images.nonzero()[:, 2:].tolist()}
    assert places == {(row, column) for row in (1, 2, 3) for column in (1, 2, 3)}


def test_images_are_mirrored_half_of_the_time(data: Images) -> None:
    left = data.images.clone()
    left[:, 0, 2, 2], left[:, 0, 2, 1] = 0, data.images[:, 0, 2, 2]
    shares = [
        batch
        for epoch in range(4)
        for batch in batches(Images(left, data.labels), epoch=epoch, shift=0, flip=True)
    ]
    columns = torch.cat([batch.images for batch in shares]).nonzero()[:, 3]
    assert set(columns.tolist()) == {1, 3}
    assert 0.35 < (columns == 3).float().mean() < 0.65


def test_bytes_are_normalized_and_shifted_in_pixels_are_zero() -> None:
    pixels = torch.full((_BATCH, 2, 3, 3), 7, dtype=torch.uint8)
    data = Images(pixels, torch.zeros(_BATCH, dtype=torch.int64), (3.0, 5.0), (2.0, 4.0))
    (batch,) = augmented_batches(data, _BATCH, World(), 0, 0, shift=1, flip=False)
    assert batch.images.dtype == torch.float32
    assert set(batch.images[:, 0].flatten().tolist()) == {0.0, 2.0}
    assert set(batch.images[:, 1].flatten().tolist()) == {0.0, 0.5}
    assert [part.images.shape[0] for part in data.batches(3)] == [3, 3, 2]
    assert {part.images[0, 0, 0, 0].item() for part in data.batches(3)} == {2.0}


@pytest.mark.parametrize(("batch_size", "ranks"), [(_COUNT + 1, 1), (3, 4), (0, 1)])
def test_an_invalid_batch_size_is_refused(data: Images, batch_size: int, ranks: int) -> None:
    with pytest.raises(DataError, match=f"a batch of {batch_size} must hold"):
        next(augmented_batches(data, batch_size, World(0, ranks), 0, 0, shift=1, flip=False))
