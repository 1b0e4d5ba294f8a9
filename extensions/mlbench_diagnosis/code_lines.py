"""Time of a profiled thread by line of the user's code, from samples of its stack."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlbench.contract.profiles import MAX_OPERATORS, MAX_TEXT_LENGTH, CodeLine
from mlbench_worker.agent.stream_files import read_regular

OTHER_LINES = "other lines"
# A code file of more bytes is shown without the text of its lines.
_MAX_FILE_BYTES = 4 << 20
_MAX_SOURCE_LENGTH = 80
_OURS = re.compile(r"/mlbench_sources/|/mlbench/tracking/")
_LIBRARY = re.compile(r"^<frozen|^$|/(site|dist)-packages/|/lib(64)?/python3\.\d+/")
_BASIC_LIBRARY = re.compile(
    r"^<frozen|^$|/(site|dist)-packages/torch/|/lib(64)?/python3\.\d+/(?!(site|dist)-packages/)"
)
_Activities = defaultdict[str, float]
# No process has a thread with this number: Linux counts to 2^22.
_STACKS_THREAD = (1 << 22) + 1


@dataclass(frozen=True)
class CodeFrame:
    """A function's call at a line of a file."""

    function: str
    file: str
    line: int

    @property
    def name(self) -> str:
        """The function with the name of its file, such as ``load (train.py)``."""
        return f"{self.function} ({self.file.rpartition('/')[2]})"


@dataclass(frozen=True)
class Sample:
    """The stack of a thread, outermost call first, for a part of the profiled time."""

    seconds: float
    stack: Sequence[CodeFrame]
    operator: str = ""
    """The innermost PyTorch operator of the thread at that time; empty for none."""
    exchange: str = ""
    """The collective of another thread at that time, such as ``gloo:all_reduce``."""


@dataclass(frozen=True)
class SampledThread:
    """The samples that ``torch_profile`` sends: of the main thread of the profiled process."""

    thread: int
    """Its number in the trace."""
    began: int
    """The start of the profile, in Unix nanoseconds, as are ``times``."""
    times: Sequence[int]
    stacks: Sequence[Sequence[CodeFrame]]

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> "SampledThread":
        """Return the record of fields that a process sent.

        Raises:
            ValueError, TypeError, LookupError: the fields are malformed.
        """
        frames = [CodeFrame(str(name), str(file), int(n)) for name, file, n in fields["frames"]]
        times = [int(at) for at, _ in fields["samples"]]
        stacks = [[frames[number] for number in stack] for _, stack in fields["samples"]]
        return cls(int(fields["thread"]), int(fields["began"]), times, stacks)

    @property
    def seconds(self) -> Iterator[float]:
        """The time before each sample, since the previous sample.

        A C call that holds the interpreter lock delays the sample of its line.
        """
        starts = (self.began, *self.times[:-1])
        return ((at - start) / 1e9 for start, at in zip(starts, self.times, strict=True))

    def as_events(self, pid: int, base: int) -> Iterator[Mapping[str, Any]]:
        """Yield events of a Chrome trace that show the stacks as a separate thread.

        ``base`` is the time of the trace's 0, in Unix nanoseconds.
        """
        about = {"pid": pid, "tid": _STACKS_THREAD}
        name = {"name": f"Python stacks of thread {self.thread}"}
        yield {"ph": "M", "name": "thread_name", "ts": 0, **about, "args": name}
        calls: list[tuple[CodeFrame, int]] = []  # with start times
        last = self.began
        for at, stack in zip((*self.times, last), (*self.stacks, ()), strict=True):
            pairs = zip(calls, stack, strict=False)
            kept = next((i for i, (call, frame) in enumerate(pairs) if call[0] != frame), None)
            kept = min(len(calls), len(stack)) if kept is None else kept
            for frame, start in calls[kept:]:
                times = {"ts": (start - base) / 1e3, "dur": (last - start) / 1e3}
                label = f"{frame.function} ({frame.file.rpartition('/')[2]}:{frame.line})"
                yield {"ph": "X", "cat": "python_stack", "name": label, **about, **times}
            calls = calls[:kept] + [(frame, last) for frame in stack[kept:]]
            last = at


def speedscope_samples(profile: Mapping[str, Any]) -> dict[str, list[Sample]]:
    """Return the samples of each thread in a profile of speedscope's format, by the thread's name.

    The format is described by https://www.speedscope.app/file-format-schema.json.

    Raises:
        ValueError, TypeError, LookupError: the profile does not contain samples.
    """
    # Frames that stand for processes have no file.
    frames = [
        CodeFrame(frame["name"], frame["file"], frame.get("line") or 0)
        if frame.get("file")
        else None
        for frame in profile["shared"]["frames"]
    ]
    return {
        thread["name"]: [
            Sample(seconds, [frame for i in stack if (frame := frames[i])])
            for stack, seconds in zip(thread["samples"], thread["weights"], strict=True)
        ]
        for thread in profile["profiles"]
    }


def lines_of(samples: Iterable[Sample]) -> tuple[CodeLine, ...]:
    """Return the lines with the most time, in descending order, then a sum of all others.

    A sample counts for the innermost frame of the user's code: of a file that is not in a library,
    or else one that does not come with Python or PyTorch.
    """
    seconds_by_line: defaultdict[tuple[str, int], _Activities] = defaultdict(
        lambda: defaultdict(float)
    )
    for sample in samples:
        stack = [frame for frame in sample.stack if not _OURS.search(frame.file)]
        own = next(
            (
                i
                for library in (_LIBRARY, _BASIC_LIBRARY)
                for i in reversed(range(len(stack)))
                if not library.search(stack[i].file)
            ),
            len(stack) - 1,
        )
        callee = stack[own + 1].name if own + 1 < len(stack) else ""
        activity = sample.operator or (callee and sample.exchange) or callee or "Python"
        place = (stack[own].file, stack[own].line) if stack else ("", 0)
        seconds_by_line[place][activity] += sample.seconds
    in_order = sorted(seconds_by_line.items(), key=lambda item: -sum(item[1].values()))
    most = MAX_OPERATORS - 1 if len(in_order) > MAX_OPERATORS else MAX_OPERATORS
    rest: _Activities = defaultdict(float)
    for _, activities in in_order[most:]:
        for activity, seconds in activities.items():
            rest[activity] += seconds
    rows = [*in_order[:most], (("", 0), rest)] if rest else in_order
    lines = []
    for (file, number), activities in rows:
        name = f"{file.rpartition('/')[2]}:{number} {_source_of(file, number)}".strip()
        activity, seconds = max(activities.items(), key=lambda item: item[1])
        lines.append(
            CodeLine(
                (name if number else OTHER_LINES)[:MAX_TEXT_LENGTH],
                sum(activities.values()),
                activity[:MAX_TEXT_LENGTH],
                seconds,
            )
        )
    return tuple(lines)


def _source_of(file: str, number: int) -> str:
    """Return the text of a line of a file on this machine; empty if it cannot be read."""
    if not file.startswith("/"):
        return ""
    text = (read_regular(Path(file), _MAX_FILE_BYTES) or b"").decode(errors="replace")
    lines = text.splitlines()
    source = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    is_long = len(source) > _MAX_SOURCE_LENGTH
    return source[: _MAX_SOURCE_LENGTH - 1] + "…" if is_long else source
