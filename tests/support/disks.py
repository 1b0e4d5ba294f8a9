"""Small disks that a test can fill completely."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount an empty disk of ``size`` bytes at a folder until the block ends; skip if not root."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a disk can be mounted by root alone")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Fill a disk completely, and return the file that takes the space."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1))
    assert free(folder) == 0
    return path


def free(folder: Path) -> int:
    filesystem = os.statvfs(folder)
    return filesystem.f_bavail * filesystem.f_frsize
