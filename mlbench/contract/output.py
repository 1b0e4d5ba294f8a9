"""What code leaves in ``$MLBENCH_OUTPUT``, as an agent packs it and the master reads it.

A pack is a line of JSON, the list of the files, and then the contents of those that it has, one
after the other.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

MOST_FILES: Final = 100
"""That a rank's pack lists."""
MOST_FILE_BYTES: Final = 1 << 20
"""Of a file in a pack. A larger one stays where it is, and is listed."""
MOST_BYTES: Final = 16 << 20
"""Of the files in a pack, and of all packs of an attempt."""
MOST_LIST_BYTES: Final = 512 << 10
_LONGEST_NAME = 200
_LONGEST_TEXT = 4096  # as of a path
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class OutputFile:
    """A file of a pack's list."""

    name: str
    """With the folders that it is in, such as ``plots/loss.png``."""
    size: int
    sha256: str | None
    """None for a file that is too large to be read, or that changed meanwhile."""
    left: str = ""
    """Why the pack does not have it; empty if it does."""


@dataclass(frozen=True)
class OutputList:
    """The first line of a pack."""

    folder: str
    """Where the files were, on the machine of the rank."""
    files: tuple[OutputFile, ...]
    more: int = 0
    """How many further files were there, at least."""

    def line(self) -> bytes:
        """Return the line, with its end."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, pack: bytes) -> "OutputList":
        """Return the list that a pack begins with; ValueError if it begins with none."""
        line, end, _ = pack[:MOST_LIST_BYTES].partition(b"\n")
        with suppress(RecursionError):
            match json.loads(line):
                case {"folder": str(folder), "files": [*files], "more": int(more)} if end:
                    return cls(_text(folder), tuple(map(_read_file, files[:MOST_FILES])), more)
        raise ValueError("a pack begins with the line that lists its files")

    def positions(self) -> Iterator[tuple[OutputFile, int]]:
        """Yield each file, and where its content begins behind the line."""
        position = 0
        for file in self.files:
            yield file, position
            position += 0 if file.left else file.size


def is_name(name: str) -> bool:
    """Check that a name can be shown, and leads to nowhere but into a folder."""
    parts = name.split("/")
    return (
        len(name) <= _LONGEST_NAME
        and name.isprintable()
        and "\\" not in name
        and not {"", ".", ".."} & set(parts)
    )


def is_file_name(name: str) -> bool:
    """Check that a name is that of a file, without any folder."""
    return is_name(name) and "/" not in name


def _text(text: object) -> str:
    """Return what can be shown of a text."""
    return "".join(one if one.isprintable() else "?" for one in str(text)[:_LONGEST_TEXT])


def _read_file(fields: Any) -> OutputFile:
    match fields:
        case {"name": str(name), "size": int(size), "sha256": str() | None as sha256}:
            left = _text(fields.get("left", ""))
            is_digest = sha256 is None or _DIGEST.fullmatch(sha256)
            is_held = left or (sha256 is not None and size <= MOST_FILE_BYTES)
            if is_name(name) and 0 <= size < 1 << 63 and is_digest and is_held:
                return OutputFile(name, size, sha256, left)
    raise ValueError(f"no file of a pack: {fields!r:.200}")
