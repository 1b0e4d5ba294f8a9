"""Collective operations on messages whose values are known, so that each result can be checked."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from worker.training.distributed import World

# A prime, so that no part of a message looks like another part that lies elsewhere.
_PERIOD = 251


class Message:
    """This rank's values of one message: ``whole``, and of an all-gather the ``part`` it gives."""

    def __init__(self, count: int, dtype: torch.dtype, world: World, device: torch.device) -> None:
        self.world = world
        self.whole = torch.empty(count, dtype=dtype, device=device)
        self.part = torch.empty(count // world.size, dtype=dtype, device=device)
        # A rank's values are zeros and ones, so that sums are exact in every type, and repeat.
        bits = torch.randint(2, (world.size, _PERIOD), generator=torch.Generator().manual_seed(0))
        self.patterns = bits.to(dtype=dtype, device=device)

    def fill(self) -> None:
        """Set this rank's values to its pattern."""
        _repeat(self.patterns[self.world.rank], self.whole)
        _repeat(self.patterns[self.world.rank], self.part)

    def clear(self) -> None:
        """Set all values to zero, which no sum lets grow."""
        self.whole.zero_()
        self.part.zero_()


@dataclass(frozen=True)
class Collective:
    """An operation of all ranks on a message."""

    run: Callable[[Message], object]
    count_wrong: Callable[[Message], int]
    """How many values of its result are not what the ranks' patterns make of them."""
    bus_factor: Callable[[int], float]
    """What the algorithm bandwidth of so many ranks is multiplied by."""
    shared: bool = False
    """Whether each rank gives a part of the message, all of the same length."""

    def count(self, size: int, dtype: torch.dtype, ranks: int) -> int:
        """Return the values of a message of about ``size`` bytes."""
        parts = ranks if self.shared else 1
        return max(1, size // dtype.itemsize // parts) * parts


def _all_gather(message: Message) -> None:
    if dist.get_backend() == "mpi":
        dist.all_gather(list(message.whole.chunk(message.world.size)), message.part)
    else:
        dist.all_gather_single(message.whole, message.part)


def _count_wrong_of_all_gather(message: Message) -> int:
    parts = message.whole.chunk(message.world.size)
    return sum(map(count_wrong, parts, message.patterns))


COLLECTIVES = {
    "all_reduce": Collective(
        run=lambda message: dist.all_reduce(message.whole),
        count_wrong=lambda message: count_wrong(
            message.whole, message.patterns.sum(0, dtype=message.whole.dtype)
        ),
        bus_factor=lambda ranks: 2 * (ranks - 1) / ranks,
    ),
    "broadcast": Collective(
        run=lambda message: dist.broadcast(message.whole, src=0),
        count_wrong=lambda message: count_wrong(message.whole, message.patterns[0]),
        bus_factor=lambda ranks: 1.0,
    ),
    "all_gather": Collective(
        run=_all_gather,
        count_wrong=_count_wrong_of_all_gather,
        bus_factor=lambda ranks: (ranks - 1) / ranks,
        shared=True,
    ),
}


def count_wrong(values: torch.Tensor, pattern: torch.Tensor) -> int:
    """Return how many of the values, one-dimensional, differ from the pattern repeated."""
    rows, rest = _rows(values)
    wrong = torch.count_nonzero(rows != pattern) + torch.count_nonzero(rest != pattern[: len(rest)])
    return int(wrong.item())


def _repeat(pattern: torch.Tensor, values: torch.Tensor) -> None:
    rows, rest = _rows(values)
    rows.copy_(pattern.expand_as(rows))
    rest.copy_(pattern[: len(rest)])


def _rows(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return views of the values: rows as long as a pattern, and what is left."""
    whole = len(values) - len(values) % _PERIOD
    return values[:whole].view(-1, _PERIOD), values[whole:]
