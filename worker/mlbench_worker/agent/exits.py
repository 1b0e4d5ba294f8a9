"""How a rank's process ended, as it is kept for an agent that is started anew."""

import logging
import math
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from mlbench_worker.agent.files import read_json, write_json

log = logging.getLogger(__name__)

# As the master takes it.
_HIGHEST_CODE = 255
# The exit code of a process whose agent ended: the guard killed it.
_KILLED = -9
_ROOM_FOR_WORDS_BYTES = 16 << 10


@dataclass(frozen=True)
class Exit:
    """How a process ended: its code (negative: the signal), and when in Unix seconds."""

    code: int
    at: float


def write_exit(path: Path, ended: Exit, failure: str) -> None:
    """Write how a process ended, and its failure, or raise an OSError."""
    write_json(path, {**asdict(ended), "failure": failure})


def read_exit(path: Path, unknown: str) -> tuple[Exit, str]:
    """Read from a former agent's file how a process ended, and its failure.

    If it did not, or the file was damaged, the process was killed with the agent, or nobody knows:
    then the failure is ``unknown``.
    """
    try:
        record = read_json(path)
        ended = Exit(int(record["code"]), float(record["at"]))
        if abs(ended.code) <= _HIGHEST_CODE and math.isfinite(ended.at):
            return ended, str(record.get("failure", ""))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        log.warning("%s does not say how the process ended: %s", path, error)
    return Exit(_KILLED, time.time()), unknown


def why_silent(ended: Exit, folder: Path) -> str:
    """Return a failure if a full disk may have kept the process from writing its last words."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    if disk.f_bavail * disk.f_frsize > _ROOM_FOR_WORDS_BYTES:
        return ""
    return f"it exited with code {ended.code} while its worker's disk was full"
