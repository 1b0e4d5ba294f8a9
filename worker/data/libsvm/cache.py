"""The parsed form of a text file, beside it: made by one process, read by all of the machine.

The folder ``FILE.parsed`` appears in one step when it is complete, so a process that is killed
leaves nothing that could be taken for whole. A file that has changed since (by size and time) is
parsed anew; so is one whose parsed form is cut, or of another version of this program.
"""

import dataclasses
import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from worker.data.folder import DataError
from worker.data.libsvm.parse import COLUMNS, LABELS, STARTS, VALUES, Parsed, parse
from worker.data.libsvm.rows import DenseRows, Rows, SparseRows

_VERSION = 2
_ABOUT = "about.json"


@dataclass(frozen=True)
class Table:
    """A parsed file: rows in a fixed pseudo-random order, as float32."""

    rows: Rows
    labels: torch.Tensor
    """``[rows]``, as the file has them."""
    width: int
    """The largest index."""
    largest_norm2: float
    """The largest squared Euclidean norm of a row."""
    sha256: str
    """Of the file's text, decompressed, in hexadecimal."""


def open_table(source: Path) -> Table:
    """Return a text file's rows, mapped into memory; parse it first if nobody has done so.

    Of several processes that need it, one parses and the others wait.

    Raises:
        DataError: the file is malformed, or its folder cannot be written to.
    """
    folder = source.with_name(f"{source.name}.parsed")
    if about := _valid(folder, source):
        return _map(folder, about)
    try:
        with _locked(source.with_name(f"{source.name}.lock")):
            about = _valid(folder, source) or _make(folder, source)
            return _map(folder, about)
    except OSError as error:
        raise DataError(
            f"{source} cannot be parsed, as {error.filename or folder} cannot be written "
            f"({error.strerror}). Parse it once where that can be, with "
            f"`python -m worker.data.libsvm {source.name}`: its parsed form is then used from "
            f"{folder}"
        ) from error


def _make(folder: Path, source: Path) -> dict[str, Any]:
    draft = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
    draft.mkdir()
    try:
        stamp = _stamp(source)
        parsed = parse(source, draft)
        about = {
            "version": _VERSION,
            "source": stamp,
            "parsed": dataclasses.asdict(parsed),
            "bytes": {file.name: file.stat().st_size for file in draft.glob("*.npy")},
        }
        (draft / _ABOUT).write_text(json.dumps(about, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return about


def _valid(folder: Path, source: Path) -> dict[str, Any] | None:
    """Return what the folder says of itself, if that holds and it is of the file as it is now."""
    try:
        about: dict[str, Any] = json.loads((folder / _ABOUT).read_text())
        whole = all((folder / name).stat().st_size == n for name, n in about["bytes"].items())
        current = (about["version"], about["source"]) == (_VERSION, _stamp(source))
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return about if whole and current else None


def _stamp(source: Path) -> dict[str, int]:
    status = source.stat()
    return {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def _map(folder: Path, about: dict[str, Any]) -> Table:
    parsed = Parsed(**about["parsed"])
    values = _tensor(folder / VALUES)
    rows: Rows = (
        DenseRows(values)
        if parsed.dense
        else SparseRows(values, _tensor(folder / COLUMNS), _tensor(folder / STARTS))
    )
    labels = _tensor(folder / LABELS)
    return Table(rows, labels, parsed.width, parsed.largest_norm2, parsed.sha256)


def _tensor(path: Path) -> torch.Tensor:
    # Copy on write: PyTorch has no tensors that cannot be written, and this leaves the file alone.
    return torch.from_numpy(np.load(path, mmap_mode="c"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock of this machine's processes; it ends with the process, however that ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{path.stem}: another process is parsing it; waiting", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
