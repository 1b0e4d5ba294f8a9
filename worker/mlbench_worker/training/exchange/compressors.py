"""Codes: a vector as a message of few bytes, and the vector that is left of it at the other end.

A message has the same size each time, so that ranks can send without telling sizes first.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

_BYTE = 8
_FLOAT = 4  # bytes; as many as an index has
_TINY = torch.finfo(torch.float32).tiny


class Compressor(Protocol):
    """Compresses a flat float32 vector into bytes, with a loss."""

    def compress(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the message, in uint8."""

    def decompress(self, message: torch.Tensor) -> torch.Tensor:
        """Return the vector that a message stands for."""


class SignCompressor:
    """A bit for each value, and the mean magnitude of each layer. Zero counts as positive."""

    def __init__(self, layers: Sequence[int], device: torch.device) -> None:
        """``layers``: the number of values in each, one after the other."""
        self._layers = list(layers)
        self._sizes = torch.tensor(self._layers, device=device)

    def compress(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the scales, and eight signs in a byte."""
        norms = torch._foreach_norm(torch.split(vector, self._layers), 1)
        scales = torch.stack(norms) / self._sizes
        return torch.cat([scales.view(torch.uint8), pack((vector >= 0).to(torch.uint8), bits=1)])

    def decompress(self, message: torch.Tensor) -> torch.Tensor:
        """Return plus or minus its layer's scale for each value."""
        scales, signs = split_floats(message, len(self._layers))
        values = unpack(signs, bits=1)[: sum(self._layers)].float().mul_(2).sub_(1)
        torch._foreach_mul_(torch.split(values, self._layers), scales.tolist())
        return values


class TopKCompressor:
    """The k values of the largest magnitude, each with its index (int32)."""

    def __init__(self, size: int, density: float) -> None:
        self._size = size
        self._count = count_of(size, density)

    def compress(self, vector: torch.Tensor) -> torch.Tensor:
        """Return the values, and then their indices."""
        indices = vector.abs().topk(self._count, sorted=False).indices
        parts = (vector[indices], indices.to(torch.int32))
        return torch.cat([part.view(torch.uint8) for part in parts])

    def decompress(self, message: torch.Tensor) -> torch.Tensor:
        """Return the values at their places, and zeros everywhere else."""
        values, rest = split_floats(message, self._count)
        vector = values.new_zeros(self._size)
        vector[rest.clone().view(torch.int32).long()] = values
        return vector


class Quantizer:
    """A few bits for each value: its level, rounded at random, right on average.

    ``s = 2^(bits-1) - 1`` levels of either sign lie between zero and the largest magnitude of the
    bucket. A value between two of them becomes one of them, the nearer one more often.
    """

    def __init__(self, size: int, bits: int, bucket: int) -> None:
        self._size = size
        self._bits = bits
        self._bucket = bucket
        self._levels = 2 ** (bits - 1) - 1
        self._buckets = -(-size // bucket)

    def compress(self, vector: torch.Tensor, chances: torch.Tensor) -> torch.Tensor:
        """Return the largest magnitude of each bucket, and the levels, several in a byte.

        ``chances``: a random number from 0 to 1 for each value.
        """
        magnitudes = _padded(vector.abs(), self._bucket).view(self._buckets, self._bucket)
        scales = magnitudes.amax(dim=1)
        # A bucket of zeros stays one, whatever it is divided by.
        magnitudes.mul_((self._levels / scales.clamp(min=_TINY))[:, None])
        levels = magnitudes.flatten()[: self._size].add_(chances).floor_().clamp_(max=self._levels)
        codes = levels.copysign_(vector).add_(self._levels).to(torch.uint8)
        return torch.cat([scales.view(torch.uint8), pack(codes, self._bits)])

    def decompress(self, message: torch.Tensor) -> torch.Tensor:
        """Return each value's level times its bucket's scale."""
        scales, codes = split_floats(message, self._buckets)
        levels = unpack(codes, self._bits)[: self._size].float().sub_(self._levels)
        scales = scales.div_(self._levels).repeat_interleave(self._bucket)
        return levels.mul_(scales[: self._size])


def count_of(size: int, density: float) -> int:
    """Return how many of so many values are sent: at least one."""
    return max(1, round(size * density))


def pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Write codes below ``2^bits``, which divide a byte, into as few bytes as hold them.

    A byte holds codes that lie far apart, as whole stretches of memory can be shifted at once.
    """
    in_a_byte = _BYTE // bits
    planes = _padded(codes, in_a_byte).view(in_a_byte, -1)
    packed = planes[0].clone()
    for place in range(1, in_a_byte):
        packed |= planes[place] << (place * bits)
    return packed


def unpack(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the codes that ``pack`` was given, and what fills up the last bytes."""
    shifts = torch.arange(0, _BYTE, bits, dtype=torch.uint8, device=packed.device)
    codes: torch.Tensor = (packed >> shifts[:, None]) & (2**bits - 1)
    return codes.flatten()


def split_floats(message: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the float32 values that a message begins with, and the rest of its bytes."""
    head, rest = message[: count * _FLOAT], message[count * _FLOAT :]
    return head.clone().view(torch.float32), rest


def _padded(vector: torch.Tensor, multiple: int) -> torch.Tensor:
    missing = -len(vector) % multiple
    return torch.cat([vector, vector.new_zeros(missing)]) if missing else vector
