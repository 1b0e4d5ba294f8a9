"""Where the threads of a rank's Pythons are: as py-spy reads it, or as each of them writes itself.

py-spy reads their memory, if it is there and may. Else a signal has them write their stacks to a
pipe, if they have registered for it (``hook/sitecustomize.py``). One that has failed has told in
its log.
"""

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlbench.contract.autopsy import Frame, Thread
from mlbench_worker.agent import torchrun
from mlbench_worker.agent.files import text_of
from mlbench_worker.agent.sources.processes import has_open

# As in hook/sitecustomize.py.
_SHOW_STACKS = 57
_SPY_SECONDS, _NATIVE_SECONDS, _TRIES = 2.0, 4.0, 3
_ANSWER_SECONDS, _QUIET_SECONDS = 1.0, 0.1
_MOST_FRAMES, _MOST_THREADS, _MOST_BYTES = 100, 64, 1 << 20
_LONGEST_NAME, _LONGEST_FILE = 200, 400
_THREAD = re.compile(r"(?:Current thread|Thread) (0x\w+)(?: \[(.*)\])? \(most recent call first\):")
_FRAME = re.compile(r' *File "(.*)", line (\d+),? in (.*)')


def find_spy() -> str | None:
    """Return where py-spy is on this machine; None if it is not there."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def spy(program: str, pid: int, *, native: bool = False) -> list[Thread]:
    """Return the threads of a process as py-spy reads them, without stopping it.

    With the frames of C too, if ``native``: then it stands still for up to 2 s.

    Raises:
        OSError: it may not, or cannot; the process may be no Python.
    """
    how, seconds = ("--native", _NATIVE_SECONDS) if native else ("--nonblocking", _SPY_SECONDS)
    command = [program, "dump", how, "--json", "--pid", str(pid)]
    problem = ""
    for _ in range(_TRIES):  # the memory changes while it is read
        try:
            done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired as error:
            raise OSError("py-spy does not end") from error
        if done.returncode == 0:
            with suppress(ValueError, TypeError, KeyError):
                return _bounded(map(_spied, json.loads(done.stdout)))
        problem = done.stderr.decode(errors="replace").partition("\n")[0].removeprefix("Error: ")
        if "python version" in problem:
            break
    raise OSError(problem[:_LONGEST_NAME])


def _spied(thread: Any) -> Thread:
    frames = (
        Frame(one["name"], one["filename"], int(one["line"]))
        for one in thread["frames"][:_MOST_FRAMES]
    )
    is_main = thread["os_thread_id"] == thread["pid"]
    return Thread(thread["pid"], thread["thread_name"] or "", is_main, tuple(frames))


class Pipe:
    """The pipe that a rank's Pythons write their stacks to when they are asked.

    Raises:
        OSError: there is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._is_late = False

    def ask(self, pid: int) -> list[Thread]:
        """Return the threads of a process as it writes them itself.

        Raises:
            OSError: it has not registered for it, or does not answer.
        """
        if self._is_late:
            raise OSError("another process has yet to answer")
        if not self._is_registered(pid):
            raise OSError("it shows no stacks by itself")
        while self._read(0.0):
            pass
        os.kill(pid, _SHOW_STACKS)
        text = b""
        patience = _ANSWER_SECONDS
        while len(text) < _MOST_BYTES and (more := self._read(patience)):
            text += more
            patience = _QUIET_SECONDS
        if not text:
            self._is_late = True  # What it writes later would be taken for another one's.
            raise OSError("it does not show its stacks when it is asked")
        return parse_stacks(pid, text.decode(errors="replace"))

    def close(self) -> None:
        """Close it."""
        os.close(self._pipe)

    def _read(self, seconds: float) -> bytes:
        """Return what is written within some seconds; nothing if there is none."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        return os.read(self._pipe, 1 << 16) if ready else b""

    def _is_registered(self, pid: int) -> bool:
        """Check that the signal, which ends other processes, has this one write to the pipe."""
        status = text_of(Path(f"/proc/{pid}/status"))
        caught = re.search(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
        if caught is None or not int(caught[1], 16) >> (_SHOW_STACKS - 1) & 1:
            return False
        return has_open(pid, self._path)


def parse_stacks(pid: int, text: str) -> list[Thread]:
    """Return the threads that faulthandler has written of a process; the main one is its last."""
    stacks: list[tuple[str, list[Frame]]] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            stacks.append((thread[2] or thread[1], []))
        elif (frame := _FRAME.match(line)) and stacks and len(stacks[-1][1]) < _MOST_FRAMES:
            stacks[-1][1].append(Frame(frame[3], frame[1], int(frame[2])))
    threads = [Thread(pid, name, False, tuple(frames)) for name, frames in stacks[:-1]]
    threads += [Thread(pid, "MainThread", True, tuple(frames)) for _, frames in stacks[-1:]]
    return _bounded(threads)


def parse_traceback(pid: int, text: str) -> list[Thread]:
    """Return the main thread of a process where it has failed, by a traceback that ends its log."""
    last = torchrun.last_traceback(text.rstrip())
    lines = last["frames"].splitlines() if last and last.end() == len(last.string) else ()
    frames = [Frame(one[3], one[1], int(one[2])) for one in map(_FRAME.match, lines) if one]
    return _bounded([Thread(pid, "MainThread", True, tuple(reversed(frames[-_MOST_FRAMES:])))])


def _bounded(threads: Iterator[Thread] | Sequence[Thread]) -> list[Thread]:
    """Return the main thread, then others, as many and with texts as long as may be."""
    of_python = (thread for thread in threads if thread.frames)
    main_first = sorted(of_python, key=lambda thread: not thread.is_main)[:_MOST_THREADS]
    return [
        replace(thread, name=thread.name[:_LONGEST_NAME], frames=tuple(map(_cut, thread.frames)))
        for thread in main_first
    ]


def _cut(frame: Frame) -> Frame:
    return Frame(frame.function[:_LONGEST_NAME], frame.file[-_LONGEST_FILE:], frame.line)
