"""The stacks of a rank's Pythons, from py-spy, faulthandler, or a traceback in the log.

py-spy reads the memory of processes, if it is installed and permitted. Otherwise, a signal makes
processes write their stacks to a pipe, if they have registered for it (``hook/sitecustomize.py``).
The log of a failed process ends with a traceback.
"""

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mlbench.contract.diagnosis import Frame, Thread
from mlbench_worker.agent import torchrun
from mlbench_worker.agent.process_lookup import has_open
from mlbench_worker.agent.stream_files import text_of

_SHOW_STACKS = 57
"""Number of the signal that hook/sitecustomize.py registers."""
_MAX_FRAMES = 100
_MAX_NAME_LENGTH = 200
_THREAD = re.compile(r"(?:Current thread|Thread) (0x\w+)(?: \[(.*)\])? \(most recent call first\):")
_FRAME = re.compile(r' *File "(.*)", line (\d+),? in (.*)')


def find_spy() -> str | None:
    """Return the path of py-spy on this machine; None if it is not installed."""
    neighbour = Path(sys.executable).with_name("py-spy")
    return str(neighbour) if neighbour.exists() else shutil.which("py-spy")


def spy(program: str, pid: int, *, native: bool = False) -> list[Thread]:
    """Return the threads of a process from py-spy.

    The process keeps running, unless ``native`` requests C frames: that stops it for up to 2 s.

    Raises:
        OSError: py-spy fails, for example because the process is not a Python.
    """
    mode, seconds = ("--native", 4.0) if native else ("--nonblocking", 2.0)
    command = [program, "dump", mode, "--json", "--pid", str(pid)]
    problem = ""
    for _ in range(3):  # an attempt fails if the memory changes while it is read
        try:
            done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired as error:
            raise OSError("py-spy does not end") from error
        if done.returncode == 0:
            with suppress(ValueError, TypeError, KeyError):
                threads = []
                for thread in json.loads(done.stdout):
                    frames = tuple(
                        Frame(frame["name"], frame["filename"], int(frame["line"]))
                        for frame in thread["frames"][:_MAX_FRAMES]
                    )
                    is_main = thread["os_thread_id"] == thread["pid"]
                    name = thread["thread_name"] or ""
                    threads.append(Thread(thread["pid"], name, is_main, frames))
                return _bounded(threads)
        problem = done.stderr.decode(errors="replace").partition("\n")[0].removeprefix("Error: ")
        if "python version" in problem:
            break
    raise OSError(problem[:_MAX_NAME_LENGTH])


class Pipe:
    """The pipe to which a rank's Pythons write their stacks on request.

    Raises:
        OSError: the pipe does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._is_late = False

    def ask(self, pid: int) -> list[Thread]:
        """Return the threads that a process writes to the pipe.

        Raises:
            OSError: the process has not registered for the signal, or does not respond.
        """
        if self._is_late:
            raise OSError("another process has yet to answer")
        # The signal would kill a process that does not handle it.
        status = text_of(Path(f"/proc/{pid}/status"))
        caught = re.search(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
        is_handled = caught is not None and int(caught[1], 16) >> (_SHOW_STACKS - 1) & 1
        if not is_handled or not has_open(pid, self._path):
            raise OSError("it shows no stacks by itself")
        while self._read(0.0):
            pass
        os.kill(pid, _SHOW_STACKS)
        text = b""
        patience = 1.0  # seconds
        while len(text) < 1 << 20 and (piece := self._read(patience)):
            text += piece
            patience = 0.1
        if not text:
            self._is_late = True  # later output would be attributed to another process
            raise OSError("it does not show its stacks when it is asked")
        return parse_stacks(pid, text.decode(errors="replace"))

    def close(self) -> None:
        os.close(self._pipe)

    def _read(self, seconds: float) -> bytes:
        """Return the data written within some seconds; b"" if nothing is written."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        return os.read(self._pipe, 1 << 16) if ready else b""


def parse_stacks(pid: int, text: str) -> list[Thread]:
    """Return the threads in faulthandler's output for a process; its last is the main thread."""
    stacks: list[tuple[str, list[Frame]]] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            stacks.append((thread[2] or thread[1], []))
        elif (frame := _FRAME.match(line)) and stacks and len(stacks[-1][1]) < _MAX_FRAMES:
            stacks[-1][1].append(Frame(frame[3], frame[1], int(frame[2])))
    threads = [Thread(pid, name, False, tuple(frames)) for name, frames in stacks[:-1]]
    threads += [Thread(pid, "MainThread", True, tuple(frames)) for _, frames in stacks[-1:]]
    return _bounded(threads)


def parse_traceback(pid: int, text: str) -> list[Thread]:
    """Return the main thread of a failed process from a traceback at the end of its log."""
    last = torchrun.last_traceback(text.rstrip())
    lines = last["frames"].splitlines() if last and last.end() == len(last.string) else ()
    matches = filter(None, map(_FRAME.match, lines))
    frames = [Frame(match[3], match[1], int(match[2])) for match in matches]
    return _bounded([Thread(pid, "MainThread", True, tuple(reversed(frames[-_MAX_FRAMES:])))])


def _bounded(threads: Sequence[Thread]) -> list[Thread]:
    """Return the main thread, then others, limited in number and in the length of texts."""

    def cut(frame: Frame) -> Frame:
        return Frame(frame.function[:_MAX_NAME_LENGTH], frame.file[-400:], frame.line)

    python_threads = (thread for thread in threads if thread.frames)
    main_first = sorted(python_threads, key=lambda thread: not thread.is_main)[:64]
    return [
        replace(thread, name=thread.name[:_MAX_NAME_LENGTH], frames=tuple(map(cut, thread.frames)))
        for thread in main_first
    ]
