"""Compressors: encode a vector as a message of few bytes, and decode it with some loss.

All messages of a compressor have the same size, so that ranks need not send sizes first.
"""

from collections.abc import Sequence
from typing import Protocol

import torch


class Compressor(Protocol):
    """Compresses a flat float32 vector into a message of uint8."""

    def compress(self, vector: torch.Tensor) -> torch.Tensor: ...

    def decompress(self, message: torch.Tensor) -> torch.Tensor: ...


class SignCompressor:
    """One bit per value, and the mean magnitude of each layer. Zero counts as positive."""

    def __init__(self, layers: Sequence[int], device: torch.device) -> None:
        """``layers``: the number of values of each layer, in order."""
        self._layers = list(layers)
        self._sizes = torch.tensor(self._layers, device=device)

    def compress(self, vector: torch.Tensor) -> torch.Tensor:
        norms = torch._foreach_norm(torch.split(vector, self._layers), 1)
        scales = torch.stack(norms) / self._sizes
        return torch.cat([scales.view(torch.uint8), pack((vector >= 0).to(torch.uint8), bits=1)])

    def decompress(self, message: torch.Tensor) -> torch.Tensor:
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
        indices = vector.abs().topk(self._count, sorted=False).indices
        parts = (vector[indices], indices.to(torch.int32))
        return torch.cat([part.view(torch.uint8) for part in parts])

    def decompress(self, message: torch.Tensor) -> torch.Tensor:
        values, rest = split_floats(message, self._count)
        vector = values.new_zeros(self._size)
        vector[rest.clone().view(torch.int32).long()] = values
        return vector


class Quantizer:
    """A few bits per value: its level, rounded at random without bias.

    There are ``s = 2^(bits-1) - 1`` levels of either sign between zero and the largest magnitude of
    the bucket. A value between two levels becomes one of them, more often the nearer one.
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
        # The minimum avoids a division by zero in a bucket of zeros.
        divisors = scales.clamp(min=torch.finfo(torch.float32).tiny)
        magnitudes.mul_((self._levels / divisors)[:, None])
        levels = magnitudes.flatten()[: self._size].add_(chances).floor_().clamp_(max=self._levels)
        codes = levels.copysign_(vector).add_(self._levels).to(torch.uint8)
        return torch.cat([scales.view(torch.uint8), pack(codes, self._bits)])

    def decompress(self, message: torch.Tensor) -> torch.Tensor:
        scales, codes = split_floats(message, self._buckets)
        levels = unpack(codes, self._bits)[: self._size].float().sub_(self._levels)
        scales = scales.div_(self._levels).repeat_interleave(self._bucket)
        return levels.mul_(scales[: self._size])


def count_of(size: int, density: float) -> int:
    """Return the number of values sent out of ``size``: at least one."""
    return max(1, round(size * density))


def pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Pack codes below ``2^bits`` into bytes; ``bits`` divides 8.

    The codes of a byte are far apart in the vector, because then long stretches of memory can be
    shifted at once.
    """
    per_byte = 8 // bits
    planes = _padded(codes, per_byte).view(per_byte, -1)
    packed = planes[0].clone()
    for place in range(1, per_byte):
        packed |= planes[place] << (place * bits)
    return packed


def unpack(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the codes given to ``pack``, followed by its padding."""
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=packed.device)
    codes: torch.Tensor = (packed >> shifts[:, None]) & (2**bits - 1)
    return codes.flatten()


def split_floats(message: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first ``count`` float32 values of a message, and the rest of its bytes."""
    size = count * 4  # bytes
    return message[:size].clone().view(torch.float32), message[size:]


def _padded(vector: torch.Tensor, multiple: int) -> torch.Tensor:
    missing = -len(vector) % multiple
    return torch.cat([vector, vector.new_zeros(missing)]) if missing else vector
