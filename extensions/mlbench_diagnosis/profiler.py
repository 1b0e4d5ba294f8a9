"""Profile a rank for some seconds with PyTorch's profiler, or else with py-spy.

PyTorch's profiler is reached through the socket that ``hook/sitecustomize.py`` opens in processes
with a process group. It records all threads in the process's memory, and responds with a Chrome
trace. py-spy samples the stacks of a Python and its descendants.
"""

import gzip
import http.client
import io
import json
import subprocess
import time
import zlib
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from mlbench.contract.profiles import MAX_BYTES, MAX_TEXT_LENGTH, Operator, ProfileResult, Tool
from mlbench_diagnosis import operators
from mlbench_diagnosis.collectives import DebugConnection
from mlbench_diagnosis.rank_stacks import find_spy
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.external_usage import free_memory
from mlbench_worker.agent.process_lookup import descendants, is_python

_HANDLER = "torch_profile"
_PIECE_BYTES = 1 << 20
_WRITING_SECONDS = 120.0
"""Maximum time to write a profile after it was recorded, which takes longer than to record it."""
_BYTES_PER_SECOND = 128 << 20
"""Memory of PyTorch's profiler: twice the measured need of a small model, with its many calls."""


def profile(attempt: Attempt, root: int | None, seconds: int) -> tuple[ProfileResult, bytes]:
    """Profile a rank; return the description of the profile, and its file, compressed by gzip.

    The rank's processes are ``root`` and its descendants.
    """
    began = time.time()
    tool: Tool = ""
    content, table, problem = b"", tuple[Operator, ...](), ""
    try:
        if socket := _find_pytorch(attempt.diagnosis):
            tool = "pytorch"
            free = free_memory(root)
            if free < seconds * _BYTES_PER_SECOND:
                fits = max(0, int(free // _BYTES_PER_SECOND))
                raise OSError(f"seconds: its worker has memory left to profile {fits} s by PyTorch")
            connection = DebugConnection(socket, seconds + _WRITING_SECONDS)
            with attempt.profiling(), closing(connection):
                connection.request("POST", f"/handler/{_HANDLER}?duration={seconds}")
                response = connection.getresponse()
                if response.status != HTTPStatus.OK:
                    message = response.read(_PIECE_BYTES).decode(errors="replace")
                    first_line = message.partition("\n")[0]
                    raise OSError(f"PyTorch's profiler failed: {first_line}")
                content = _compressed(response)
                with gzip.open(io.BytesIO(content), "rt", errors="replace") as trace:
                    pieces = iter(lambda: trace.read(_PIECE_BYTES), "")
                    table = operators.of_events(operators.trace_events(pieces))
        else:
            pids = [] if root is None else [root, *descendants(root)]
            python, program = next(filter(is_python, pids), None), find_spy()
            if program is None:
                raise OSError("rank: its worker has neither py-spy nor PyTorch's profiler")
            if python is None:
                raise OSError("rank: none of its processes is a Python")
            tool = "py-spy"
            with attempt.profiling():
                content = _spy(program, python, seconds)
                table = operators.of_samples(json.loads(gzip.decompress(content)))
    except (OSError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
        problem = str(error)[:MAX_TEXT_LENGTH] or type(error).__name__
    except (ValueError, TypeError, LookupError):
        pass  # other versions of the profiler may not have such a table
    return ProfileResult(tool, began, time.time(), "" if content else problem, table), content


def _find_pytorch(folder: Path) -> Path | None:
    """Return the socket of the first process that has PyTorch's profiler."""
    sockets = [path for path in folder.glob("[0-9]*") if path.name.isdecimal()]
    for path in sorted(sockets, key=lambda path: int(path.name)):
        with (
            suppress(OSError, http.client.HTTPException),
            closing(DebugConnection(path)) as connection,
        ):
            connection.request("GET", "/handler/")
            if f'"{_HANDLER}"'.encode() in connection.getresponse().read(_PIECE_BYTES):
                return path
    return None


def _spy(program: str, pid: int, seconds: int) -> bytes:
    """Return py-spy's profile of a process and its descendants, which keep running."""
    with NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run(
            [
                *(program, "record", "--nonblocking", "--subprocesses", "--pid", str(pid)),
                *("--duration", str(seconds), "--rate", "100"),
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
    """Return the source compressed by gzip; raise an OSError if that exceeds the limit."""
    gzip_format = 31  # zlib's number for it
    packer, packed = zlib.compressobj(level=5, wbits=gzip_format), bytearray()
    while True:
        piece = source.read(_PIECE_BYTES)
        packed += packer.compress(piece) if piece else packer.flush()
        if len(packed) > MAX_BYTES:
            most = f"more than {MAX_BYTES >> 20} MiB compressed"
            raise OSError(f"seconds: its profile has {most}: profile fewer seconds")
        if not piece:
            return bytes(packed)
