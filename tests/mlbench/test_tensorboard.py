"""Event files: what was written is read again, and nothing else."""

import io
import math

import pytest

from mlbench.tensorboard import (
    DamagedError,
    Scalar,
    first_record,
    masked_checksum,
    read_scalars,
    to_record,
)

_SOME = [
    Scalar("loss", 1763683200.123456, 1, 0.1),
    Scalar("ü/λ", 1.5, -3, math.inf),
    Scalar("loss", 2e9, 2**40, 1e-300),
]


def test_the_checksum_is_the_one_of_the_specification() -> None:
    crc = 0xE3069283  # of RFC 3720's example
    assert masked_checksum(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_scalars_are_read_as_they_were_written_and_as_the_file_grows() -> None:
    data = first_record(1.0) + b"".join(map(to_record, _SOME))
    file = io.BytesIO()
    found = []
    for i in range(0, len(data), 7):
        place = file.tell()
        file.seek(0, io.SEEK_END)
        file.write(data[i : i + 7])
        file.seek(place)
        found += list(read_scalars(file))
    assert found == _SOME


def test_what_is_larger_than_a_scalar_is_passed_over() -> None:
    large = to_record(Scalar("x" * 100_000, 1.0, 1, 1.0))
    file = io.BytesIO(large + to_record(_SOME[0]))
    assert list(read_scalars(file)) == _SOME[:1]
    cut = io.BytesIO(large[:-1])
    assert list(read_scalars(cut)) == []
    assert cut.tell() == 0


@pytest.mark.parametrize("place", [0, 9, 14, -1])
def test_a_damaged_record_is_told(place: int) -> None:
    data = bytearray(to_record(_SOME[0]))
    data[place] ^= 1
    with pytest.raises(DamagedError, match="at byte 0"):
        list(read_scalars(io.BytesIO(data)))
