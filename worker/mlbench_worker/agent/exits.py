"""The exit of a rank's process, and its file for a restarted agent."""

import logging
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

from mlbench_worker.agent.stream_files import read_json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Exit:
    """The end of a process."""

    code: int
    """Exit code, or the negative number of the signal that killed the process."""
    at: float
    """Unix time in seconds."""


def read_exit(path: Path, unknown: str) -> tuple[Exit, str]:
    """Read an exit and its failure from a file of an earlier agent.

    If the file is missing or damaged, the process was probably killed together with the agent. The
    failure is ``unknown`` then.
    """
    try:
        record = read_json(path)
        ended = Exit(int(record["code"]), float(record["at"]))
        if abs(ended.code) <= 255 and math.isfinite(ended.at):  # the master's limits
            return ended, str(record.get("failure", ""))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        log.warning("%s does not say how the process ended: %s", path, error)
    return Exit(-9, time.time()), unknown  # killed by the guard


def why_silent(ended: Exit, folder: Path) -> str:
    """Return a failure if a full disk may have kept the process from writing its last output."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    if disk.f_bavail * disk.f_frsize > 16 << 10:
        return ""
    return f"it exited with code {ended.code} while its worker's disk was full"
