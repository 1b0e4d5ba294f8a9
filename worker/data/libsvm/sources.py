"""The text files of a data set: what they are called, and their lines in blocks."""

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from worker.data.folder import DataError
from worker.data.libsvm.text import Lines

_BLOCK_BYTES = 16 << 20
_COMPRESSED = (".xz", ".bz2", ".gz")
# Training and validation file, where they are not called NAME and NAME.t.
_KNOWN = {
    "epsilon": ("epsilon_normalized", "epsilon_normalized.t"),
    "rcv1": ("rcv1_train.binary", "rcv1_test.binary"),
}
_WHERE_TO_GET = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"


class _Text(Protocol):
    """What is read of a file, compressed or not."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self) -> bytes: ...


@dataclass(frozen=True)
class Sources:
    """The files of a data set."""

    train: Path
    validation: Path | None
    """None where the data set comes in one file."""


def find_sources(name: str, folder: Path) -> Sources:
    """Return the files of a data set in ``folder``, or in a folder of its name therein.

    Each may be compressed (.xz, .bz2, .gz). A data set that LIBSVM's page lists under another name
    than its files (epsilon, rcv1) is known by that name.

    Raises:
        DataError: there is no training file.
    """
    train_name, validation_name = _KNOWN.get(name, (name, f"{name}.t"))
    places = (folder / name, folder)
    train = _find(train_name, places)
    if train is None:
        raise DataError(
            f"data set {name}: there is no file {train_name} (or with {', '.join(_COMPRESSED)}) in "
            f"{folder} nor in {folder / name}. Get it from {_WHERE_TO_GET} and put it there, or "
            "set MLBENCH_DATASETS to the folder that has it"
        )
    return Sources(train, _find(validation_name, places))


def _find(name: str, places: tuple[Path, ...]) -> Path | None:
    candidates = (place / f"{name}{ending}" for place in places for ending in ("", *_COMPRESSED))
    return next((path for path in candidates if path.is_file()), None)


class Source:
    """A text file that is being read, plain or compressed."""

    def __init__(self, path: Path, raw: BinaryIO, text: _Text) -> None:
        self._path = path
        self._raw = raw
        self._text = text
        self._size = max(path.stat().st_size, 1)
        self._digest = hashlib.sha256()

    @property
    def share_read(self) -> float:
        """How much of the file has been read, from 0 to 1."""
        return self._raw.tell() / self._size

    @property
    def sha256(self) -> str:
        """Of the text that has been read, decompressed, in hexadecimal."""
        return self._digest.hexdigest()

    def blocks(self) -> Iterator[Lines]:
        """Yield all lines, in blocks of some megabytes.

        Raises:
            DataError: the file cannot be decompressed.
        """
        first = 1
        try:
            while block := self._text.read(_BLOCK_BYTES):
                block += self._text.readline()
                self._digest.update(block)
                yield Lines(block, str(self._path), first)
                first += block.count(b"\n")
        except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
            raise DataError(
                f"{self._path}, after line {first - 1}: it cannot be read to its end ({error}); "
                "a download that broke off? Get it again"
            ) from error


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a text file, and decompress it if its name says so."""
    with path.open("rb") as raw, _decompressed(path.suffix, raw) as text:
        yield Source(path, raw, text)


def _decompressed(ending: str, raw: BinaryIO) -> AbstractContextManager[_Text]:
    match ending:
        case ".xz":
            return lzma.LZMAFile(raw)
        case ".bz2":
            return bz2.BZ2File(raw)
        case ".gz":
            return gzip.GzipFile(fileobj=raw)
        case _:
            return nullcontext(raw)
