"""The operators of a profile with the most time, for any order and chunking of the trace."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from mlbench.contract.profiles import Operator
from mlbench_diagnosis.code_lines import speedscope_samples
from mlbench_diagnosis.operators import Trace, of_samples, trace_events


def call(name: str, began: float, took: float, thread: int = 1, kind: str = "cpu_op") -> Any:
    about = {"ph": "X", "cat": kind, "name": name, "pid": 7, "tid": thread}
    return {**about, "ts": began, "dur": took, "args": {"Input Dims": [[2], []]}}


CALLS = [
    call("linear", 10, 100),
    call("addmm", 20, 50),
    call("copy", 20, 10),  # starts with the call that contains it
    call("addmm", 80, 20),
    call("addmm", 110, 40),  # starts when the first one ends
    call("linear", 15, 30, thread=2),  # another thread, so not nested
    call("gemm", 40, 500, thread=9, kind="kernel"),
    call("Trace", 0, 10_000, kind="Trace"),
    {"ph": "M", "name": "process_name", "pid": 7},
]
FOUND = (
    Operator("gemm", 1, 500e-6, 500e-6),
    Operator("addmm", 3, 100e-6, 110e-6),
    Operator("linear", 2, 60e-6, 130e-6),
    Operator("copy", 1, 10e-6, 10e-6),
)


def pieces(text: str, length: int) -> Iterator[str]:
    return (text[at : at + length] for at in range(0, len(text), length))


@pytest.mark.parametrize("length", [1, 7, 10_000])
def test_a_trace_is_summed_while_it_is_read(length: int) -> None:
    trace = {"schemaVersion": 1, "traceEvents": [*reversed(CALLS)], "traceName": "a.json"}
    found = Trace(trace_events(pieces(json.dumps(trace, indent=1), length))).operators()
    assert [(one.name, one.calls) for one in found] == [(one.name, one.calls) for one in FOUND]
    for one, expected in zip(found, FOUND, strict=True):
        seconds = (expected.self_seconds, expected.total_seconds)
        assert (one.self_seconds, one.total_seconds) == pytest.approx(seconds)


def test_at_most_ten_operators_are_returned() -> None:
    found = Trace(call(f"op{number}", 100 * number, number) for number in range(20)).operators()
    assert [one.name for one in found] == [f"op{number}" for number in range(19, 9, -1)]


@pytest.mark.parametrize("text", ["x" * (5 << 20), '{"traceEvents": [{"a": "' + "x" * (5 << 20)])
def test_reading_stops_after_a_limit_without_a_trace_event(text: str) -> None:
    with pytest.raises(ValueError, match="no trace"):
        list(trace_events(pieces(text, 1 << 20)))


def test_stack_samples_are_summed_by_function() -> None:
    frames = [
        {"name": "process 7:python train.py"},
        {"name": "main", "file": "/a/train.py", "line": 9},
        {"name": "load", "file": "/a/data.py", "line": 3},
        {"name": "load", "file": "/a/data.py", "line": 4},
        {"name": "get", "file": "/usr/lib/python3.11/queue.py", "line": 180},
    ]
    threads = [
        {"samples": [[0, 1], [0, 1, 2], [0, 1, 2, 3]], "weights": [0.5, 0.25, 0.25]},
        {"samples": [[0, 2], [], [1, 4]], "weights": [1.0, 1.0, 7.0]},
    ]
    threads = [{"name": str(i), **thread} for i, thread in enumerate(threads)]
    samples = speedscope_samples({"shared": {"frames": frames}, "profiles": threads})
    assert of_samples(chain.from_iterable(samples.values())) == (
        Operator("load (data.py)", None, 1.5, 1.5),
        Operator("main (train.py)", None, 0.5, 1.0),
    )


def test_operators_and_collectives_are_found_by_time() -> None:
    calls = [
        call("step", 0, 100, thread=7, kind="user_annotation"),
        call("linear", 10, 50, thread=7),
        call("addmm", 20, 20, thread=7),
        call("gloo:all_reduce", 70, 20, thread=9, kind="user_annotation"),
        call("sum", 0, 1000, thread=9),
    ]
    trace, times = Trace(reversed(calls)), (5, 10, 25, 39.5, 40, 61, 75, 95)
    operators = ["", "linear", "addmm", "addmm", "linear", "", "", ""]
    assert [*trace.operators_at(7, times)] == operators
    assert [*trace.exchanges_at(times)] == [*[""] * 6, "gloo:all_reduce", ""]
