"""What an exchange sends, and how many bytes that are."""

from collections.abc import Sequence

import torch

from mlbench_worker.ranks.distributed import World


class Communicator:
    """Communication between all ranks that counts the bytes which this rank sends.

    What counts is the payload that the usual algorithm of an operation, which gloo's is too, has a
    rank hand to the network; headers, and what repairs losses, come on top:

    - a sum of n ranks is a ring's all-reduce (Patarasuk, Yuan 2009): 2 (n - 1) / n of the message;
    - a gathering is a ring's all-gather: n - 1 messages of a rank's size;
    - a message to a neighbour counts once.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.bytes_sent = 0
        """Since the start."""

    def average_(self, tensor: torch.Tensor) -> None:
        """Replace ``tensor`` by its mean over all ranks, the same to the last bit on each."""
        self.world.mean_(tensor)
        self.count_sum(tensor.nbytes)

    def gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of all ranks, which have one shape, in order of ranks."""
        self.bytes_sent += (self.world.size - 1) * tensor.nbytes
        return self.world.gather(tensor)

    def swap(self, tensor: torch.Tensor, peers: Sequence[int]) -> list[torch.Tensor]:
        """Send ``tensor`` to each of the peers, and return what each of them sends at once."""
        self.bytes_sent += len(peers) * tensor.nbytes
        return self.world.swap(tensor, peers)

    def count_sum(self, size: int) -> None:
        """Count a message of that many bytes which something else sums over all ranks."""
        self.bytes_sent += 2 * (self.world.size - 1) * size // self.world.size
