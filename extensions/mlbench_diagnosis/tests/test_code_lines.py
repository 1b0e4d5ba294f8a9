"""Time per line of code, computed from stack samples."""

from pathlib import Path

import pytest

from mlbench.contract.profiles import MAX_OPERATORS
from mlbench_diagnosis.code_lines import CodeFrame, Sample, SampledThread, lines_of

TORCH = "/venv/lib/python3.11/site-packages/torch/_tensor.py"
LIGHTNING = "/venv/lib/python3.11/site-packages/lightning/trainer.py"
QUEUE = "/opt/python/lib/python3.11/queue.py"


def frame(file: str, line: int = 1, function: str = "f") -> CodeFrame:
    return CodeFrame(function, file, line)


def test_time_counts_for_the_innermost_line_of_user_code(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time\n\n    loss.backward()  \n")
    main = frame(str(script), 3, "main")
    timed = frame("/opt/extensions/mlbench_sources/collectives.py", 9, "call")
    backward = frame(TORCH, 500, "backward")
    lines = lines_of(
        [
            Sample(1.0, [main]),
            Sample(0.5, [main, timed, backward], operator="aten::mm"),
            Sample(4.0, [main, backward], exchange="gloo:all_reduce"),
            Sample(0.25, [main, backward]),
            Sample(2.0, [frame(LIGHTNING, 7, "fit"), backward], exchange=""),
            Sample(3.0, [frame(QUEUE, 180, "get")]),
            Sample(0.5, []),
            Sample(0.5, [frame(str(tmp_path / "gone.py"), 8), main, frame("<string>", 2)], "", "x"),
        ]
    )
    assert [(line.name, line.seconds, line.activity, line.activity_seconds) for line in lines] == [
        ("train.py:3 loss.backward()", 5.75, "gloo:all_reduce", 4.0),
        ("queue.py:180", 3.0, "Python", 3.0),
        ("trainer.py:7", 2.0, "backward (_tensor.py)", 2.0),
        ("other lines", 0.5, "Python", 0.5),
        ("<string>:2", 0.5, "Python", 0.5),
    ]


def test_lines_beyond_the_limit_are_merged_into_one() -> None:
    lines = lines_of(Sample(1 + n, [frame("/a.py", 1 + n)]) for n in range(2 * MAX_OPERATORS))
    assert len(lines) == MAX_OPERATORS
    assert (lines[0].name, lines[-1].name) == ("a.py:20", "other lines")
    assert sum(line.seconds for line in lines) == sum(range(2 * MAX_OPERATORS + 1))


def test_stacks_are_written_as_trace_events() -> None:
    frames = [["main", "/a/train.py", 5], ["load", "/a/data.py", 8], ["load", "/a/data.py", 9]]
    fields = {
        **{"thread": 7, "began": 1_000_000, "frames": frames},
        "samples": [[2_000_000, [0, 1]], [3_000_000, [0, 1]], [5_000_000, [0, 2]], [6_000_000, []]],
    }
    sampled = SampledThread.from_fields(fields)
    assert [*sampled.seconds] == pytest.approx([1e-3, 1e-3, 2e-3, 1e-3])
    title, *events = sampled.as_events(7, 1_000_000)
    assert title["args"] == {"name": "Python stacks of thread 7"}
    assert len({(event["pid"], event["tid"]) for event in (title, *events)}) == 1
    assert [(event["name"], event["ts"], event["dur"]) for event in events] == [
        ("load (data.py:8)", 0, 2000),
        ("main (train.py:5)", 0, 4000),
        ("load (data.py:9)", 2000, 2000),
    ]
    with pytest.raises((TypeError, LookupError, ValueError)):
        SampledThread.from_fields({**fields, "samples": [[1, [3]]]})
