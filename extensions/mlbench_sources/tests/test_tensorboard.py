"""Event files: written records are read back, and damaged ones are refused."""

import io
import math
import struct
from contextlib import suppress

import pytest

from mlbench.contract.reported_settings import Setting, check_settings
from mlbench_sources.tensorboard import (
    DamagedError,
    Hyperparameters,
    Scalar,
    first_record,
    masked_checksum,
    read_events,
    to_record,
)

_SOME = [
    Scalar("loss", 1763683200.123456, 1, 0.1),
    Scalar("ü/λ", 1.5, -3, math.inf),
    Scalar("loss", 2e9, 2**40, 1e-300),
]

# {"batch_size": 32, "lr": 0.1, "optimizer": "sgd"}, as written by PyTorch's add_hparams.
SESSION = (
    b"\t>\xcc\x03|\x95\xc1\xdaA*o\nm\n\x1c_hparams_/session_start_infoJM\nK\n\x07hparams\x12@\x1a>"
    b"\n\x17\n\nbatch_size\x12\t\x11\x00\x00\x00\x00\x00\x00@@"
    b"\n\x0f\n\x02lr\x12\t\x11\x9a\x99\x99\x99\x99\x99\xb9?"
    b"\n\x12\n\toptimizer\x12\x05\x1a\x03sgd"
)


def test_the_checksum_matches_the_specification() -> None:
    crc = 0xE3069283  # the example in RFC 3720
    assert masked_checksum(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    parts = (length, checksum(length), content, checksum(content))
    return b"".join(parts)


def checksum(data: bytes) -> bytes:
    return struct.pack("<I", masked_checksum(data))


def test_scalars_are_read_from_a_growing_file() -> None:
    data = first_record(1.0) + b"".join(map(to_record, _SOME))
    file = io.BytesIO()
    scalars = []
    for i in range(0, len(data), 7):
        place = file.tell()
        file.seek(0, io.SEEK_END)
        file.write(data[i : i + 7])
        file.seek(place)
        scalars += list(read_events(file))
    assert scalars == _SOME


def test_records_larger_than_a_scalar_are_skipped() -> None:
    large = to_record(Scalar("x" * 100_000, 1.0, 1, 1.0))
    file = io.BytesIO(large + to_record(_SOME[0]))
    assert list(read_events(file)) == _SOME[:1]
    cut = io.BytesIO(large[:-1])
    assert list(read_events(cut)) == []
    assert cut.tell() == 0


@pytest.mark.parametrize("place", [0, 9, 14, -1])
def test_a_damaged_record_raises_an_error(place: int) -> None:
    data = bytearray(to_record(_SOME[0]))
    data[place] ^= 1
    with pytest.raises(DamagedError, match="at byte 0"):
        list(read_events(io.BytesIO(data)))


def test_hyperparameters_are_read() -> None:
    stated: dict[str, Setting] = {"batch_size": 32, "lr": 0.1, "optimizer": "sgd"}
    file = io.BytesIO(record(SESSION))
    assert list(read_events(file)) == [Hyperparameters(1795577328.059341, stated)]


def test_changed_hyperparameters_are_valid_or_damaged() -> None:
    for place in range(len(SESSION)):
        for byte in (0, 1, 8, 0x7F, 0xFF, SESSION[place] ^ 1):
            changed = bytearray(SESSION)
            changed[place] = byte
            with suppress(DamagedError):
                for one in read_events(io.BytesIO(record(bytes(changed)))):
                    assert isinstance(one, Hyperparameters)
                    check_settings(one.values)
