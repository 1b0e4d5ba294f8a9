"""Profile a rank for some seconds with PyTorch's profiler, or else with py-spy.

``torch_profile`` is reached through the socket that ``hook/sitecustomize.py`` opens in processes
with a process group. PyTorch's profiler records all threads in the process's memory. The response
has samples of the main thread's stack and a Chrome trace, which become one trace here. py-spy
samples the stacks of a Python and its descendants.
"""

import gzip
import http.client
import io
import json
import re
import subprocess
import time
import zlib
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import chain, takewhile
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from mlbench.contract.profiles import (
    MAX_BYTES,
    MAX_TEXT_LENGTH,
    CodeLine,
    Operator,
    ProfileResult,
    Tool,
)
from mlbench_diagnosis import operators
from mlbench_diagnosis.code_lines import Sample, SampledThread, lines_of, speedscope_samples
from mlbench_diagnosis.collectives import DebugConnection
from mlbench_diagnosis.rank_stacks import find_spy
from mlbench_worker.agent.attempt import Attempt
from mlbench_worker.agent.external_usage import free_memory
from mlbench_worker.agent.process_lookup import descendants, is_python, other_process
from mlbench_worker.agent.stream_files import text_of

_HANDLER = "mlbench_profile"
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_PIECE_BYTES = 1 << 20
_LAUNCHERS = {
    *("torchrun", "torch.distributed.run", "torch.distributed.launch"),
    *("accelerate", "deepspeed", "deepspeed.launcher.launch"),
}
"""Python programs and modules that start the processes of ranks."""
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
    content, problem = b"", ""
    lines, table = tuple[CodeLine, ...](), tuple[Operator, ...]()
    try:
        if socket := _find_pytorch(attempt.diagnosis):
            tool = "pytorch"
            free = free_memory(root)
            if free < seconds * _BYTES_PER_SECOND:
                fits = max(0, int(free // _BYTES_PER_SECOND))
                raise OSError(f"seconds: its worker has memory left to profile {fits} s by PyTorch")
            with attempt.profiling():
                sampled, base, content = _record_by_pytorch(socket, seconds)
            with gzip.open(io.BytesIO(content), "rt", errors="replace") as file:
                pieces = iter(lambda: file.read(_PIECE_BYTES), "")
                trace = operators.Trace(operators.trace_events(pieces))
            times = [(at - base) / 1e3 for at in sampled.times]
            active = trace.operators_at(sampled.thread, times), trace.exchanges_at(times)
            samples = map(Sample, sampled.seconds, sampled.stacks, *active)
            lines, table = lines_of(samples), trace.operators()
        else:
            python, program = _find_python(root), find_spy()
            if program is None:
                raise OSError(
                    "rank: its worker has no py-spy, and its processes have not joined a process "
                    "group, which PyTorch's profiler needs. Profile it again once it trains."
                )
            tool = "py-spy"
            with attempt.profiling():
                content = _record_by_spy(program, python, seconds)
            threads = speedscope_samples(json.loads(gzip.decompress(content)))
            main = f"Process {python} Thread {python} "
            [python_samples] = [threads[name] for name in threads if name.startswith(main)]
            # py-spy samples less often if it gets too little time.
            scale = seconds / sum(sample.seconds for sample in python_samples)
            scaled = (replace(sample, seconds=sample.seconds * scale) for sample in python_samples)
            of_all = chain.from_iterable(threads.values())
            lines, table = lines_of(scaled), operators.of_samples(of_all)
    except (OSError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
        problem = str(error)[:MAX_TEXT_LENGTH] or type(error).__name__
    except (ValueError, TypeError, LookupError, ArithmeticError):
        # Other versions of the profiler may respond with other files.
        problem = f"the profile of {tool} is malformed"
    problem = "" if content else problem
    return ProfileResult(tool, began, time.time(), problem, table, lines), content


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


def _find_python(root: int | None) -> int:
    """Return the process of the lowest rank among a process and its descendants.

    Launchers are left out: they wait while their processes train.

    Raises:
        OSError: no process runs Python, or a launcher has not started its processes yet.
    """
    pids = [] if root is None else [root, *descendants(root)]
    pythons = [pid for pid in pids if is_python(pid)]
    if not pythons:
        raise OSError("rank: none of its processes is a Python")
    ranks = []
    for pid in pythons:
        program = text_of(Path(f"/proc/{pid}/cmdline")).split("\0")[1:4]
        options = takewhile(lambda word: not word.endswith(".py"), program)
        if not any(Path(word).name in _LAUNCHERS for word in options):
            ranks.append(pid)
    if not ranks:
        raise OSError(
            "rank: its launcher has not started its processes yet. Profile it again once it trains."
        )
    # Children of a rank, such as data loaders, have its variables and come after it.
    return min(ranks, key=lambda pid: other.rank if (other := other_process(pid)) else 0)


def _record_by_pytorch(socket: Path, seconds: int) -> tuple[SampledThread, int, bytes]:
    """Return the samples of a process, the start of the trace in Unix ns, and the trace.

    The compressed trace shows the samples on the time axis of the calls.
    """
    with closing(DebugConnection(socket, seconds + _WRITING_SECONDS)) as connection:
        connection.request("POST", f"/handler/{_HANDLER}?duration={seconds}")
        response = connection.getresponse()
        if response.status != HTTPStatus.OK:
            message = response.read(_PIECE_BYTES).decode(errors="replace")
            raise OSError(f"PyTorch's profiler failed: {message.partition(chr(10))[0]}")
        sampled = SampledThread.from_fields(json.loads(response.readline(MAX_BYTES)))
        head = response.read(_PIECE_BYTES)
        match = _BASE.search(head)
        base = int(match[1]) if match else 0
        events = map(json.dumps, sampled.as_events(int(socket.name), base))
        stacks = ",\n".join(events).encode() + b",\n"
        head = _EVENTS.sub(lambda start: start[0] + stacks, head, count=1)
        return sampled, base, _compressed(io.BytesIO(head), response)


def _record_by_spy(program: str, pid: int, seconds: int) -> bytes:
    """Return py-spy's profile of a process and its descendants, which keep running."""
    with NamedTemporaryFile(suffix=".json") as file:
        done = subprocess.run(
            [
                *(program, "record", "--nonblocking", "--subprocesses", "--idle"),
                *("--pid", str(pid), "--full-filenames"),
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


def _compressed(*sources: BinaryIO | http.client.HTTPResponse) -> bytes:
    """Return the sources compressed by gzip; raise an OSError if that exceeds the limit."""
    gzip_format = 31  # zlib's number for it
    packer, packed = zlib.compressobj(level=5, wbits=gzip_format), bytearray()
    for piece in chain.from_iterable(iter(partial(s.read, _PIECE_BYTES), b"") for s in sources):
        packed += packer.compress(piece)
        if len(packed) > MAX_BYTES:
            break
    packed += packer.flush()
    if len(packed) > MAX_BYTES:
        most = f"more than {MAX_BYTES >> 20} MiB compressed"
        raise OSError(f"seconds: its profile has {most}: profile fewer seconds")
    return bytes(packed)
