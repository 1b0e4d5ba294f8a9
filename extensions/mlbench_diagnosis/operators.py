"""Operators, or functions, of a profile with the most self time.

PyTorch's trace has Chrome's format: a JSON object whose ``traceEvents`` contains an event per call,
with its begin (``ts``) and duration (``dur``) in microseconds. py-spy's profile contains samples of
all threads' stacks in speedscope's format: https://www.speedscope.app/file-format-schema.json.
"""

import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlbench.contract.profiles import MAX_OPERATORS, MAX_TEXT_LENGTH, Operator

# These are operators, named parts of code, their calls to CUDA, and the work of GPUs.
_KINDS = {
    *("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver"),
    *("kernel", "gpu_memcpy", "gpu_memset"),
}
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_NEXT = re.compile(r"[\s,]*")
_MAX_EVENT_LENGTH = 4 << 20


@dataclass
class _Calls:
    """Calls of a thread, as columns because there may be millions."""

    began: "array[float]" = field(default_factory=lambda: array("d"))
    took: "array[float]" = field(default_factory=lambda: array("d"))
    names: "array[int]" = field(default_factory=lambda: array("l"))


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


def of_events(events: Iterable[Any]) -> tuple[Operator, ...]:
    """Return the operators of a trace with the most self time, in descending order."""
    numbers: dict[str, int] = {}
    threads: defaultdict[tuple[Any, Any], _Calls] = defaultdict(_Calls)
    for event in events:
        match event:
            case {"ph": "X", "cat": kind, "name": str(name), "ts": ts, "dur": took} if (
                kind in _KINDS
            ):
                calls = threads[event.get("pid"), event.get("tid")]
                calls.began.append(ts)
                calls.took.append(took)
                calls.names.append(numbers.setdefault(name, len(numbers)))
    own, total, count = ([0.0] * len(numbers) for _ in range(3))
    for calls in threads.values():
        open_calls: list[tuple[float, int]] = []  # End and operator of each; the innermost is last.
        in_order = sorted(range(len(calls.began)), key=lambda i: (calls.began[i], -calls.took[i]))
        for i in in_order:
            began, took, number = calls.began[i], calls.took[i], calls.names[i]
            total[number] += took
            count[number] += 1
            while open_calls and open_calls[-1][0] <= began:
                open_calls.pop()
            # The time of a call in another one is not the outer one's own time.
            own[number] += took
            if open_calls:
                ends, outer = open_calls[-1]
                own[outer] -= min(took, ends - began)
            open_calls.append((began + took, number))
    operators = [
        Operator(name[:MAX_TEXT_LENGTH], round(count[i]), own[i] / 1e6, total[i] / 1e6)
        for name, i in numbers.items()
    ]
    return _most_expensive(operators)


def of_samples(profile: Mapping[str, Any]) -> tuple[Operator, ...]:
    """Return the functions of a profile in speedscope's format with the most self time.

    Raises:
        ValueError, TypeError, LookupError: the profile does not contain samples.
    """
    names = [
        frame.get("file")  # Frames that stand for processes have no file.
        and f"{frame['name']} ({frame['file'].rpartition('/')[2]})"[:MAX_TEXT_LENGTH]
        for frame in profile["shared"]["frames"]
    ]
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for thread in profile["profiles"]:
        for stack, seconds in zip(thread["samples"], thread["weights"], strict=True):
            functions = [names[i] for i in stack if names[i]]
            for name in set(functions):
                total[name] += seconds
            for name in functions[-1:]:
                own[name] += seconds
    return _most_expensive(Operator(name, None, own[name], total[name]) for name in total)


def _most_expensive(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    in_order = sorted(operators, key=lambda operator: (-operator.self_seconds, operator.name))
    return tuple(in_order[:MAX_OPERATORS])
