"""Reading and writing of scalars and hyperparameters in TensorBoard's event files.

A file is a list of records: length, checksum, content, checksum. The content is an Event of
tensorflow/core/util/event.proto, a protocol buffer, of which few fields matter here.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import BinaryIO, NamedTuple

from mlbench.contract.limits import MAX_METRIC_NAME_LENGTH, MAX_SETTING_LENGTH
from mlbench.contract.reported_settings import Setting, is_setting

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
# Longer events, such as images, are skipped. Scalars are shorter.
_MAX_EVENT_LENGTH = 64 << 10
_MAX_FILE_LENGTH = (1 << 63) - 1  # bytes, the maximum of a file offset
_SCALARS, _HYPERPARAMETERS = b"scalars", b"hparams"
_VERSION = b"brain.Event:2"

# Wire types of protobuf fields.
_VARINT, _FIXED64, _BYTES = 0, 1, 2
# Data types of a tensor that contains a scalar: protobuf field number and struct format.
_FLOAT, _DOUBLE = 1, 2
_TENSORS = {_FLOAT: (5, "<f"), _DOUBLE: (6, "<d")}
_MORE, _LOW = 0x80, 0x7F


class DamagedError(Exception):
    """Not an event file, or a damaged one."""


class Scalar(NamedTuple):
    """Value of a tag, with its time in Unix seconds and its step."""

    tag: str
    time: float
    step: int
    value: float


class Hyperparameters(NamedTuple):
    """Hyperparameters of ``add_hparams``, with their time in Unix seconds."""

    time: float
    values: dict[str, Setting]


def read_events(file: BinaryIO) -> Iterator[Scalar | Hyperparameters]:
    """Yield the contents of the complete records from here on; leave the file after the last.

    Raises:
        DamagedError: a record is damaged.
    """
    while True:
        start = file.tell()
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            break
        length, checksum = _HEADER.unpack(header)
        if checksum != masked_checksum(header[:8]):
            raise DamagedError(f"at byte {start}")
        if length > _MAX_FILE_LENGTH - start - _HEADER.size - _CHECKSUM.size:
            raise DamagedError(f"at byte {start}: a record of {length:,} bytes")
        if length > _MAX_EVENT_LENGTH:
            end = file.seek(length + _CHECKSUM.size, 1)
            if file.seek(0, 2) < end:
                break
            file.seek(end)
            continue
        rest = file.read(length + _CHECKSUM.size)
        if len(rest) < length + _CHECKSUM.size:
            break
        content = rest[:length]
        if _CHECKSUM.unpack(rest[length:])[0] != masked_checksum(content):
            raise DamagedError(f"at byte {start}")
        try:
            yield from _read_event(content)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise DamagedError(f"at byte {start}: {error}") from None
    file.seek(start)


def first_record(time: float) -> bytes:
    """Return the first record of a file."""
    return _record(_field(1, struct.pack("<d", time), _FIXED64) + _field(3, _VERSION))


def to_record(scalar: Scalar) -> bytes:
    """Return the record of a scalar, in double precision."""
    number = _field(_TENSORS[_DOUBLE][0], struct.pack("<d", scalar.value))
    tensor = _field(1, _to_varint(_DOUBLE), _VARINT) + _field(2, b"") + number
    metadata = _field(1, _field(1, _SCALARS)) + _field(4, _to_varint(1), _VARINT)
    value = _field(1, scalar.tag.encode()) + _field(9, metadata) + _field(8, tensor)
    time = _field(1, struct.pack("<d", scalar.time), _FIXED64)
    step = _field(2, _to_varint(scalar.step), _VARINT)
    return _record(time + step + _field(5, _field(1, value)))


def masked_checksum(data: bytes) -> int:
    """Return the masked CRC-32C of data, as records contain it."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901
        table.append(byte)
    return tuple(table)


def _read_event(event: bytes) -> Iterator[Scalar | Hyperparameters]:
    time, step, values = 0.0, 0, []
    for number, content in _fields(event):
        match number, content:
            case 1, bytes():
                [time] = struct.unpack("<d", content)
            case 2, int():
                step = int.from_bytes((content % (1 << 64)).to_bytes(8), signed=True)
            case 5, bytes():
                values += [_message(value) for field, value in _fields(content) if field == 1]
    for value in values:
        plugin = _message(_message(value.get(9)).get(1))  # the plugin's data in the metadata
        if plugin.get(1) == _HYPERPARAMETERS:
            if hyperparameters := _hyperparameters(plugin.get(2)):
                yield Hyperparameters(time, hyperparameters)
            continue
        scalar = _scalar(value, plugin.get(1))
        if scalar is not None:
            tag = value.get(1)
            yield Scalar(tag.decode() if isinstance(tag, bytes) else "", time, step, scalar)


def _message(content: object) -> dict[int, int | bytes]:
    """Return the fields of a message by number; an empty dictionary for other content."""
    return dict(_fields(content)) if isinstance(content, bytes) else {}


def _scalar(value: dict[int, int | bytes], plugin: object) -> float | None:
    """Return the number of a summary's value; None if it is not a scalar."""
    number = value.get(2)
    if isinstance(number, bytes):
        return float(struct.unpack("<f", number)[0])
    tensor = _message(value.get(8))
    kind = tensor.get(1)
    if plugin != _SCALARS or not isinstance(kind, int) or kind not in _TENSORS:
        return None
    field, packed = _TENSORS[kind]
    content = tensor.get(4) or tensor.get(field)
    if not isinstance(content, bytes) or len(content) != struct.calcsize(packed):
        return None
    return float(struct.unpack(packed, content)[0])


def _hyperparameters(content: object) -> dict[str, Setting]:
    """Return the hyperparameters of a session that can be stored as settings."""
    settings: dict[str, Setting] = {}
    with suppress(struct.error, IndexError, UnicodeDecodeError):  # another version
        session = _message(content).get(3)
        for number, entry in _fields(session if isinstance(session, bytes) else b""):
            match number, _message(entry):
                case 1, {1: bytes(key), 2: value}:
                    name, setting = key.decode(), _setting(_message(value))
                    if (
                        0 < len(name) <= MAX_METRIC_NAME_LENGTH
                        and is_setting(name)
                        and is_setting(setting)
                    ):
                        settings[name] = setting
    return settings


def _setting(value: dict[int, int | bytes]) -> object:
    """Return the content of a google.protobuf.Value; lists and structures unchanged."""
    match value:
        case {1: _}:
            return None
        case {2: bytes(packed)}:
            [number] = struct.unpack("<d", packed)  # also whole numbers
            return int(number) if number.is_integer() and abs(number) < 1 << 53 else number
        case {3: bytes(text)}:
            return text.decode()[:MAX_SETTING_LENGTH]
        case {4: int(truth)}:
            return bool(truth)
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and content of each field: an integer or bytes."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        match key & 7:
            case 0:
                value, position = _varint(message, position)
                yield key >> 3, value
                continue
            case 1:
                length = 8
            case 2:
                length, position = _varint(message, position)
            case 5:
                length = 4
            case _:
                raise IndexError("an unknown kind of field")
        if position + length > len(message):
            raise IndexError("a field that is cut")
        yield key >> 3, message[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the integer at a position, and the position after it."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        number |= (byte & _LOW) << shift
        position += 1
        if not byte & _MORE:
            return number, position
    raise IndexError("a number that does not end")


def _to_varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    digits = []
    while number > _LOW:
        digits.append(number & _LOW | _MORE)
        number >>= 7
    return bytes([*digits, number])


def _field(number: int, content: bytes, kind: int = _BYTES) -> bytes:
    length = _to_varint(len(content)) if kind == _BYTES else b""
    return _to_varint(number << 3 | kind) + length + content


def _record(content: bytes) -> bytes:
    parts = struct.pack("<Q", len(content)), content
    return b"".join(part + _CHECKSUM.pack(masked_checksum(part)) for part in parts)
