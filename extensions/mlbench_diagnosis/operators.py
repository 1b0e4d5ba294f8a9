"""Operators, or functions, of a profile with the most self time.

PyTorch's trace has Chrome's format: a JSON object whose ``traceEvents`` contains an event per call,
with its begin (``ts``) and duration (``dur``) in microseconds. py-spy's profile contains samples of
all threads' stacks.
"""

import json
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from mlbench.contract.profiles import MAX_OPERATORS, MAX_TEXT_LENGTH, Operator
from mlbench_diagnosis.code_lines import Sample

# These are operators, named parts of code, their calls to CUDA, and the work of GPUs.
_KINDS = {
    *("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"),
    *("kernel", "gpu_memcpy", "gpu_memset"),
}
_EXCHANGE = re.compile(r"(gloo|nccl|mpi|ucc|xccl|hccl):\w+")
# A thread waits in these files of Python's library.
_WAITING = re.compile(
    r"/lib/python3\.\d+/(.*/)?"
    r"(threading|selectors|queue|socket|connection|synchronize|popen_fork|subprocess)\.py$"
)
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_NEXT = re.compile(r"[\s,]*")
_MAX_EVENT_LENGTH = 4 << 20


@dataclass
class _Calls:
    """Calls of a thread, as columns because there may be millions."""

    began: "array[float]" = field(default_factory=lambda: array("d"))
    took: "array[float]" = field(default_factory=lambda: array("d"))
    names: "array[int]" = field(default_factory=lambda: array("l"))

    def add(self, began: float, took: float, name: int) -> None:
        self.began.append(began)
        self.took.append(took)
        self.names.append(name)

    def in_order(self) -> Iterator[tuple[float, float, int]]:
        """Yield the beginning, duration and name of each call; an outer call before its callees."""
        order = sorted(range(len(self.began)), key=lambda i: (self.began[i], -self.took[i]))
        return ((self.began[i], self.took[i], self.names[i]) for i in order)


def trace_events(pieces: Iterable[str]) -> Iterator[Any]:
    """Yield the events of a Chrome trace while it is read: as a whole, it would fill memory.

    Raises:
        ValueError: the text is not such a trace.
    """
    decoder = json.JSONDecoder()
    text, has_begun = "", False
    for piece in pieces:
        text += piece
        if not has_begun:
            opening = _EVENTS.search(text)
            has_begun = opening is not None
            text = text[opening.end() :] if opening else text
        position = 0
        while has_begun:
            begin = _NEXT.match(text, position)
            try:
                event, position = decoder.raw_decode(text, begin.end() if begin else position)
            except ValueError:
                break  # The rest of the event is in the next piece, or the list has ended.
            yield event
        text = text[position:]
        if len(text) > _MAX_EVENT_LENGTH:
            raise ValueError("it has an event that is too long, or is no trace")


class Trace:
    """The calls in a trace, by process and thread."""

    def __init__(self, events: Iterable[Any]) -> None:
        self._threads: defaultdict[tuple[Any, Any], _Calls] = defaultdict(_Calls)
        self._exchanges = _Calls()
        self._annotations: set[int] = set()
        numbers: dict[str, int] = {}
        for event in events:
            match event:
                case {"ph": "X", "cat": kind, "name": str(name), "ts": ts, "dur": took} if (
                    kind in _KINDS
                ):
                    number = numbers.setdefault(name, len(numbers))
                    self._threads[event.get("pid"), event.get("tid")].add(ts, took, number)
                    if kind == "user_annotation":
                        self._annotations.add(number)
                        if _EXCHANGE.fullmatch(name):
                            self._exchanges.add(ts, took, number)
        self._names = list(numbers)

    def operators(self) -> tuple[Operator, ...]:
        """Return the operators with the most self time, in descending order."""
        own, total, count = ([0.0] * len(self._names) for _ in range(3))
        for calls in self._threads.values():
            open_calls: list[tuple[float, int]] = []  # End and operator; the innermost is last.
            for began, took, number in calls.in_order():
                total[number] += took
                count[number] += 1
                while open_calls and open_calls[-1][0] <= began:
                    open_calls.pop()
                # The time of a call in another one is not self time of the outer one.
                own[number] += took
                if open_calls:
                    ends, outer = open_calls[-1]
                    own[outer] -= min(took, ends - began)
                open_calls.append((began + took, number))
        return _most_expensive(
            Operator(name[:MAX_TEXT_LENGTH], round(count[i]), own[i] / 1e6, total[i] / 1e6)
            for i, name in enumerate(self._names)
        )

    def operators_at(self, thread: int, times: Sequence[float]) -> Iterator[str]:
        """Yield the innermost operator of a main thread at ascending times; "" for none.

        A named part of code is not an operator.
        """
        return self._innermost(self._threads[thread, thread], times, self._annotations)

    def exchanges_at(self, times: Sequence[float]) -> Iterator[str]:
        """Yield the collective of any thread at ascending times, such as gloo:all_reduce."""
        return self._innermost(self._exchanges, times, frozenset())

    def _innermost(self, calls: _Calls, times: Sequence[float], ignored: Set[int]) -> Iterator[str]:
        later_calls = calls.in_order()
        call = next(later_calls, None)
        open_calls: list[tuple[float, int]] = []
        for at in times:
            while call is not None and call[0] <= at:
                began, took, number = call
                if number not in ignored:
                    open_calls.append((began + took, number))
                call = next(later_calls, None)
            while open_calls and open_calls[-1][0] <= at:
                open_calls.pop()
            yield self._names[open_calls[-1][1]] if open_calls else ""


def of_samples(samples: Iterable[Sample]) -> tuple[Operator, ...]:
    """Return the functions with the most self time, without the time of waiting threads."""
    own: defaultdict[str, float] = defaultdict(float)
    total: defaultdict[str, float] = defaultdict(float)
    for sample in samples:
        names = [frame.name for frame in sample.stack]
        if names and not _WAITING.search(sample.stack[-1].file):
            own[names[-1]] += sample.seconds
            for name in set(names):
                total[name] += sample.seconds
    return _most_expensive(
        Operator(name[:MAX_TEXT_LENGTH], None, own[name], total[name]) for name in total
    )


def _most_expensive(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    in_order = sorted(operators, key=lambda operator: (-operator.self_seconds, operator.name))
    return tuple(in_order[:MAX_OPERATORS])
