"""The current phase of a process, which its agent reads for a hang diagnosis.

The process writes the phase into one byte of a memory-mapped file. Entering a phase therefore
costs no system call, and the byte is right even if the process is killed.
"""

import mmap
import os
from collections.abc import Mapping
from pathlib import Path

from mlbench.contract import names
from mlbench.contract.names import PHASES, Phase

Mark = mmap.mmap | bytearray
"""A buffer whose first byte is the phase's position in ``PHASES``, from 1; 0 outside all phases."""


def open_mark(environ: Mapping[str, str]) -> Mark:
    """Return the mark of this process; without an agent, a buffer that nobody reads."""
    folder = environ.get(names.ENV_DIAGNOSIS)
    if folder is None:
        return bytearray(1)
    try:
        with mark_of(Path(folder), os.getpid()).open("w+b") as file:
            file.write(b"\0")
            file.flush()
            return mmap.mmap(file.fileno(), 1)
    except OSError:  # training continues without a mark
        return bytearray(1)


def mark_of(folder: Path, pid: int) -> Path:
    """Return the file with the mark of a process."""
    return folder / f"phase-{pid}"


def phase_in(mark: bytes | Mark) -> Phase | None:
    """Return the phase in a mark; None outside all phases, or if the mark is not valid."""
    position = mark[0] if mark else 0
    return PHASES[position - 1] if 0 < position <= len(PHASES) else None
