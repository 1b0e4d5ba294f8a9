"""Packs of the files that code writes to ``$MLBENCH_OUTPUT``, from the agent to the master.

A pack is a line of JSON with the list of the files, followed by the contents of the files that it
contains, one after the other.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Final

from mlbench.contract.humanize import printable

MAX_FILES: Final = 100
"""Maximum number of files that a pack lists."""
MAX_FILE_BYTES: Final = 1 << 20
"""Maximum size of a file in a pack. A larger file is listed, but stays on its machine."""
MAX_BYTES: Final = 16 << 20
"""Maximum size of all files in a pack, and in all packs of an attempt."""
MAX_LIST_BYTES: Final = 512 << 10
"""Maximum size of the list of files."""


@dataclass(frozen=True)
class OutputFile:
    """A file in the list of a pack."""

    name: str
    """Path of the file in the output folder, such as ``plots/loss.png``."""
    size: int
    """Size in bytes."""
    sha256: str | None
    """SHA-256 in hexadecimal; None if the file was too large or changed during reading."""
    left: str = ""
    """Reason why the pack does not contain the file; empty if it does."""


@dataclass(frozen=True)
class OutputList:
    """The first line of a pack."""

    folder: str
    """Output folder on the rank's machine."""
    files: tuple[OutputFile, ...]
    more: int = 0
    """Minimum number of files that the list leaves out."""

    def line(self) -> bytes:
        """Return the line with its line end."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, pack: bytes) -> "OutputList":
        """Return the list at the start of a pack. Raises ValueError if there is no valid list."""
        line, end, _ = pack[:MAX_LIST_BYTES].partition(b"\n")
        with suppress(RecursionError):
            match json.loads(line):
                case {"folder": str(folder), "files": [*files], "more": int(more)} if end:
                    listed = tuple(map(_read_file, files[:MAX_FILES]))
                    return cls(printable(folder[:4096]), listed, more)
        raise ValueError("pack: must begin with the line that lists its files")

    def positions(self) -> Iterator[tuple[OutputFile, int]]:
        """Yield each file with the position of its content after the line."""
        position = 0
        for file in self.files:
            yield file, position
            position += 0 if file.left else file.size


def is_name(name: str) -> bool:
    """Check that a name can be displayed and does not lead out of its folder."""
    parts = name.split("/")
    return (
        len(name) <= 200
        and name.isprintable()
        and "\\" not in name
        and not {"", ".", ".."} & set(parts)
    )


def is_file_name(name: str) -> bool:
    """Check that a name is the name of a file without folders."""
    return is_name(name) and "/" not in name


def sha256_of_start(file: BinaryIO, size: int) -> str:
    """Return the SHA-256 of a file's first ``size`` bytes, in hexadecimal."""
    file.seek(0)
    digest = hashlib.sha256()
    while size > 0 and (data := file.read(min(size, 1 << 20))):
        digest.update(data)
        size -= len(data)
    return digest.hexdigest()


def _read_file(fields: Any) -> OutputFile:
    match fields:
        case {"name": str(name), "size": int(size), "sha256": str() | None as sha256}:
            left = printable(str(fields.get("left", ""))[:4096])
            is_digest = sha256 is None or re.fullmatch("[0-9a-f]{64}", sha256)
            is_held = left or (sha256 is not None and size <= MAX_FILE_BYTES)
            if is_name(name) and 0 <= size < 1 << 63 and is_digest and is_held:
                return OutputFile(name, size, sha256, left)
    raise ValueError(f"pack: not a valid file entry (got {fields!r:.200})")
