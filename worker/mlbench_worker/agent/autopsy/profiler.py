"""Profile a rank for some seconds: by PyTorch's own profiler, or by py-spy where it has none.

PyTorch's is asked at the socket that ``hook/sitecustomize.py`` has processes with a process group
listen at. It records all threads, holds that in the process's memory until it is written, and
answers with a Chrome trace. py-spy reads the stacks of a Python and its descendants.
"""

import gzip
import http.client
import io
import json
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from mlbench.contract.profiles import LONGEST_TEXT, MOST_BYTES, Operator, Recorded, Tool
from mlbench.evaluation import operators
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.autopsy.collectives import Connection
from mlbench_worker.agent.autopsy.stacks import find_spy
from mlbench_worker.agent.sources.processes import descendants, is_python
from mlbench_worker.agent.usage import free_memory

_HANDLER = "torch_profile"
_PIECE_BYTES = 1 << 20
# What PyTorch has recorded is written after that, for longer than it was recorded.
_WRITING_SECONDS = 120.0
# A small model, of which PyTorch's profiler records most calls, was seen to need half of it.
_BYTES_PER_SECOND = 128 << 20
_SAMPLES_PER_SECOND = 100
_LEVEL, _GZIP = 5, 31  # as zlib calls it


def profile(attempt: Attempt, root: int | None, seconds: int) -> tuple[Recorded, bytes]:
    """Profile a rank; return what is to be said of it, and its file as gzip compresses it.

    Its processes are ``root`` and what descends from it.
    """
    began = time.time()
    tool: Tool = ""
    content, table, problem = b"", tuple[Operator, ...](), ""
    try:
        if socket := _find_pytorch(attempt.autopsy):
            tool = "pytorch"
            _check_memory(root, seconds)
            with attempt.profiling():
                content = _ask_pytorch(socket, seconds)
                table = operators.of_events(operators.trace_events(_texts(content)))
        else:
            python, program = _find_python(root), find_spy()
            if program is None:
                raise OSError("rank: there is no py-spy on its worker, nor PyTorch's profiler")
            if python is None:
                raise OSError("rank: none of its processes is a Python")
            tool = "py-spy"
            with attempt.profiling():
                content = _spy(program, python, seconds)
                table = operators.of_samples(json.loads(gzip.decompress(content)))
    except (OSError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
        problem = str(error)[:LONGEST_TEXT] or type(error).__name__
    except (ValueError, TypeError, LookupError):
        pass  # of the table, which other versions may not have
    return Recorded(tool, began, time.time(), "" if content else problem, table), content


def _find_pytorch(folder: Path) -> Path | None:
    """Return the socket of the first process that has PyTorch's profiler."""
    sockets = [path for path in folder.glob("[0-9]*") if path.name.isdecimal()]
    for path in sorted(sockets, key=lambda one: int(one.name)):
        with suppress(OSError, http.client.HTTPException), closing(Connection(path)) as connection:
            connection.request("GET", "/handler/")
            if f'"{_HANDLER}"'.encode() in connection.getresponse().read(_PIECE_BYTES):
                return path
    return None


def _check_memory(root: int | None, seconds: int) -> None:
    """Make sure that what is recorded has room in memory, or raise an OSError."""
    free = free_memory(root)
    if free < seconds * _BYTES_PER_SECOND:
        fits = max(0, int(free // _BYTES_PER_SECOND))
        raise OSError(f"seconds: its worker has memory left to profile {fits} s by PyTorch")


def _ask_pytorch(socket: Path, seconds: int) -> bytes:
    with closing(Connection(socket, seconds + _WRITING_SECONDS)) as connection:
        connection.request("POST", f"/handler/{_HANDLER}?duration={seconds}")
        answer = connection.getresponse()
        if answer.status != HTTPStatus.OK:
            said = answer.read(_PIECE_BYTES).decode(errors="replace").partition("\n")[0]
            raise OSError(f"PyTorch's profiler failed: {said}")
        return _compressed(answer)


def _find_python(root: int | None) -> int | None:
    if root is None:
        return None
    return next(filter(is_python, [root, *descendants(root)]), None)


def _spy(program: str, pid: int, seconds: int) -> bytes:
    """Return what py-spy sees of a process, which it does not stop, and of its descendants."""
    with NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run(
            [
                *(program, "record", "--nonblocking", "--subprocesses", "--pid", str(pid)),
                *("--duration", str(seconds), "--rate", str(_SAMPLES_PER_SECOND)),
                *("--format", "speedscope", "--output", file.name),
            ],
            capture_output=True,
            timeout=seconds + _WRITING_SECONDS,
            check=False,
        )
        with Path(file.name).open("rb") as written:
            if content := _compressed(written) if done.returncode == 0 else b"":
                return content
    last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    raise OSError(f"py-spy failed: {last_line}")


def _compressed(source: BinaryIO | http.client.HTTPResponse) -> bytes:
    """Return all of it, compressed; OSError if that is too much."""
    packer, packed = zlib.compressobj(level=_LEVEL, wbits=_GZIP), bytearray()
    while True:
        piece = source.read(_PIECE_BYTES)
        packed += packer.compress(piece) if piece else packer.flush()
        if len(packed) > MOST_BYTES:
            most = f"more than {MOST_BYTES >> 20} MiB compressed"
            raise OSError(f"seconds: its profile has {most}: profile fewer seconds")
        if not piece:
            return bytes(packed)


def _texts(content: bytes) -> Iterator[str]:
    with gzip.open(io.BytesIO(content), "rt", errors="replace") as file:
        while text := file.read(_PIECE_BYTES):
            yield text
