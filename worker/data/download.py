"""Downloads a data set's file, once for all ranks of a machine, and checks what came."""

import fcntl
import hashlib
import urllib.request
from pathlib import Path

from worker.data.folder import DataError

_TIMEOUT_SECONDS = 30.0
_CHUNK_BYTES = 1 << 20


def ensure_file(path: Path, url: str, sha256: str) -> None:
    """Make sure that there is a file: one that is there already stays, whatever it holds.

    Of several processes that want it at the same time, one downloads and the others wait.

    Raises:
        DataError: the file is not there, and it could not be downloaded, or is not what
            ``sha256`` says.
    """
    if path.is_file():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(path.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_file():
                _download(path, url, sha256)
    except OSError as error:
        raise DataError(
            f"there is no {path}, and it could not be downloaded from {url} ({error}): put it there"
        ) from error


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(path: Path, url: str, sha256: str) -> None:
    print(f"downloading {url}", flush=True)
    draft = path.with_name(path.name + ".new")
    with (
        urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer,  # noqa: S310
        draft.open("wb") as file,
    ):
        while chunk := answer.read(_CHUNK_BYTES):
            file.write(chunk)
    if (found := sha256_of(draft)) != sha256:
        draft.unlink()
        raise DataError(
            f"what {url} answered is not {path.name}: its SHA-256 is {found}, not {sha256}; "
            f"put the right file at {path}"
        )
    draft.replace(path)
