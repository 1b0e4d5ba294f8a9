"""The collectives of a rank, read from PyTorch's flight recorder through a private socket.

``hook/sitecustomize.py`` starts PyTorch's server in each process with a process group. The server
responds without the interpreter. For gloo's collectives, the recorder only knows whether they have
ended.
"""

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlbench.contract.diagnosis import Collective
from mlbench_worker.agent.stream_files import read_regular

_MAX_BYTES = 16 << 20
_NO_TRACE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""Errors of ``read_trace`` for anything but a trace."""
_MAX_NAME_LENGTH = 100


def find_collectives(
    folder: Path, ranks: Mapping[int, int] = MappingProxyType({})
) -> tuple[Collective, ...]:
    """Return the last collective of each process group, the default group's first.

    ``ranks`` maps process ids to ranks. If several processes of a rank report the same group, the
    one that is furthest behind counts. The result is empty if no process has a group or responds.
    """
    last: dict[tuple[int | None, str], Collective] = {}
    sockets = [path for path in folder.glob("[0-9]*") if not path.suffix]
    for path in sockets[:16]:
        rank = ranks.get(int(path.name)) if path.name.isdecimal() else None
        for collective in _read_collectives(path):
            before = last.setdefault((rank, collective.group), collective)
            if collective.number <= before.number:
                last[rank, collective.group] = replace(collective, rank=rank)
    in_order = sorted(last.values(), key=lambda entry: (len(entry.group), entry.group))
    return tuple(in_order[:64])


def left_collectives(folder: Path) -> tuple[Collective, ...]:
    """Return the collectives that a failing process has written to a file: the newest file's."""
    with suppress(OSError, *_NO_TRACE):
        newest = max(folder.glob("[0-9]*.json"), key=lambda path: path.stat().st_mtime)
        return tuple(read_trace(json.loads(read_regular(newest, _MAX_BYTES) or b"")))
    return ()


def _read_collectives(path: Path) -> Iterator[Collective]:
    # The first handler is for all backends except NCCL; the other is in builds with NCCL only.
    for handler in ("fr_trace_json", "dump_nccl_trace_json"):
        try:
            with closing(DebugConnection(path)) as connection:
                connection.request("POST", f"/handler/{handler}")
                trace = json.loads(connection.getresponse().read(_MAX_BYTES))
            yield from read_trace(trace)
        except OSError:
            return  # The process does not respond, for example because it is stopped.
        except (http.client.HTTPException, *_NO_TRACE):
            pass  # The user's code could have opened the socket.


def read_trace(trace: Mapping[str, Any]) -> list[Collective]:
    """Return the last collective of each group in a trace of the flight recorder.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: it is not such a trace.
    """
    last: dict[str, Mapping[str, Any]] = {}
    for entry in trace.get("entries", []):
        if not entry["is_p2p"]:
            last[str(entry["process_group"][0])] = entry
    entered = {
        str(group): int(status["last_enqueued_collective"])
        for group, status in trace["pg_status"].items()
    }
    numbers = {"0": 0, **entered}  # "0" is the default group
    collectives = []
    for group, number in numbers.items():
        entry = last.get(group, {})
        name, sizes, has_ended = "", tuple[tuple[int, ...], ...](), True
        if entry.get("collective_seq_id") == number:
            name, has_ended = (
                str(entry["profiling_name"])[:_MAX_NAME_LENGTH],
                bool(entry["retired"]),
            )
            sizes = tuple(tuple(map(int, size[:16])) for size in entry["input_sizes"][:16])
        group_name = group[:_MAX_NAME_LENGTH]
        collectives.append(Collective(group_name, max(0, number), name, sizes, has_ended))
    return collectives


class DebugConnection(http.client.HTTPConnection):
    """A connection to PyTorch's server in a process, through its socket."""

    def __init__(self, path: Path, timeout: float = 1.0) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect, or raise an OSError."""
        # The path of a socket has at most 108 bytes: /proc has a shorter one for the folder.
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)
