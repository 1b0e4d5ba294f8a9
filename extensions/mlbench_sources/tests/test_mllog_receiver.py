"""MLPerf's lines converted to lines of the metrics file."""

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from mlbench_sources.file_receiver import OutputLines
from mlbench_sources.mllog_receiver import DIRECTIONS, MLLog


def line(key: str, ms: float = 0, kind: str = "POINT_IN_TIME", **its: Any) -> str:
    value = its.pop("value", None)
    fields = {"time_ms": ms, "event_type": kind, "key": key, "value": value, "metadata": its}
    return f":::MLLOG {json.dumps(fields)}"


def start(key: str, ms: float, **its: Any) -> str:
    return line(key, ms, "INTERVAL_START", **its)


def end(key: str, ms: float, **its: Any) -> str:
    return line(key, ms, "INTERVAL_END", **its)


def read(*lines: str, say: Callable[[str], None] = print) -> list[Any]:
    log = MLLog(say)
    return [made for one in lines for made in log.lines(one.encode())]


def test_values_before_the_start_of_the_run_are_settings() -> None:
    assert read(
        line("global_batch_size", 1000, value=96),
        line("opt_name", 1001, value="sgd"),
        start("run_start", 2000),
        line("power", 3000, value=7, step_num=5),
        line("tracked_stats", 3001, value={"loss": 0.5, "note": "none"}),
        line("power", 3002, value="high"),
    ) == [
        {"time": 1.0, "settings": {"batch_size": 96}},
        {"time": 1.001, "settings": {"batch_size": 96, "opt_name": "sgd"}},
        {"time": 3.0, "step": 5, "metrics": {"power": 7}},
        {"time": 3.001, "metrics": {"loss": 0.5}},
    ]


def test_training_time_excludes_evaluation() -> None:
    records = read(
        line("target_accuracy", value=0.9, lower_is_better=False),
        start("run_start", 10_000),
        start("epoch_start", 10_000, epoch_num=1),
        start("eval_start", 14_000),
        line("eval_accuracy", 15_000, value=0.5, samples_count=60),
        end("eval_stop", 16_000),
        start("epoch_start", 17_000, epoch_num=2),
        end("run_stop", 18_000, status="success"),
    )
    assert records[0] == {"time": 0, "goal": goal(0.9, lower=False)}
    assert [record["metrics"] for record in records[1:]] == [
        {"epoch": 0, "train_seconds": 0},
        {"samples": 60, "train_seconds": 4, "eval_accuracy": 0.5},
        {"epoch": 1, "train_seconds": 5},
        {"run_status": "success", "train_seconds": 6},
    ]


def goal(value: float, *, lower: bool) -> dict[str, object]:
    return {"metric": "eval_accuracy", "value": value, "lower_is_better": lower}


@pytest.mark.parametrize(
    ("benchmark", "direction", "lower"),
    [
        ("resnet", {}, False),
        ("dlrmv4", {}, False),
        ("llama2_70b_lora", {}, True),
        ("resnet", {"lower_is_better": True}, True),
    ],
)
def test_the_direction_of_a_target_is_logged_or_that_of_the_benchmark(
    benchmark: str, direction: dict[str, Any], lower: bool
) -> None:
    target = line("target_accuracy", value=0.5, **direction)
    lines = [line("submission_benchmark", value=benchmark), target]
    for order in (lines, lines[::-1]):
        records = read(*order, start("run_start", 10))
        assert [r["goal"] for r in records if "goal" in r] == [goal(0.5, lower=lower)]


@pytest.mark.parametrize("benchmark", ["digits", None])
@pytest.mark.parametrize("key", ["run_start", "eval_accuracy"])
def test_a_target_of_unknown_direction_is_ignored_with_a_warning(
    benchmark: str | None, key: str
) -> None:
    said: list[str] = []
    first = [line("submission_benchmark", value=benchmark)] if benchmark else []
    later = line(key, 10, "INTERVAL_START" if key == "run_start" else "POINT_IN_TIME", value=1)
    records = read(*first, line("target_accuracy", value=0.9), later, later, say=said.append)
    assert not [record for record in records if "goal" in record]
    [sentence] = said
    assert f"got submission_benchmark {benchmark!r}" in sentence


def test_directions_match_the_compliance_checker() -> None:
    folder = Path(str(files("mlperf_logging.compliance_checker")))
    directions = {}
    for rules in sorted(folder.glob("*_*/closed_*.yaml")):
        # A target with several values, such as the one of stable_diffusion, is not a number.
        check = (
            r"NAME: +eval_accuracy\n(?:(?!- KEY).*\n)*? +ATLEAST_ONE_CHECK: .*?v\['value'\] ([<>])"
        )
        if match := re.search(check, rules.read_text()):
            directions[rules.stem.removeprefix("closed_")] = match[1] == "<"
    assert directions == DIRECTIONS


@pytest.mark.parametrize(
    "wrong",
    [
        "an event of :::MLLOG",
        ":::MLLOG",
        ":::MLLOG []",
        ":::MLLOG " + "[" * 50_000,
        line("a", value=[1]),
        line("x" * 201, value=1),
        start("epoch_start", 1, epoch_num="first"),
    ],
)
def test_other_lines_are_ignored(wrong: str) -> None:
    [found] = read(wrong, line("a", value=1))
    assert found == {"time": 0, "settings": {"a": 1}}


@pytest.mark.parametrize(
    "wrong",
    [
        ":::MLLOG {",
        line("a", value=1)[:-5],
        ":::MLLOG " + '{"a":' * 50_000,
        ':::MLLOG {"key": "a", "value": 1}',
        ':::MLLOG {"key": "a", "value": 1, "time_ms": "now"}',
        ':::MLLOG {"key": "a", "value": 1, "time_ms": NaN}',
        ':::MLLOG {"key": ["a"], "value": 1, "time_ms": 1}',
    ],
)
def test_invalid_events_are_malformed(wrong: str) -> None:
    *malformed, found = read(wrong, line("a", value=1))
    assert len(malformed) == wrong.count(":::MLLOG")
    assert malformed[0] == {"time": None, "text": wrong[:200]}
    assert found == {"time": 0, "settings": {"a": 1}}


@pytest.mark.parametrize(
    "text",
    [
        f"{line('a', value=1)}\x1b[0m",
        f"{line('a', value=1)} # worker 3 }}",
        f"\x1b[32m{line('a', value=1)}\r\x1b[K 10%|#     |",
        f":::MLLOG  {line('a', value=1)[9:]}",
        "." * 100_000 + line("a", value=1),
    ],
)
def test_text_around_an_event_is_ignored(text: str) -> None:
    assert read(text) == [{"time": 0, "settings": {"a": 1}}]


def test_several_events_on_one_line_are_read() -> None:
    records = read(line("a", value=1) + line("b", value=2))
    assert [record["settings"] for record in records] == [{"a": 1}, {"a": 1, "b": 2}]


def test_stdout_is_read_in_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    text = f"[rank0]: {line('a', value=1)}\nother\n{line('b', value=2)}\n"
    path.write_text(text[:50])
    stdout = OutputLines(path, MLLog(print).lines)
    assert not list(stdout.read())
    path.write_text(text)
    assert [record["settings"] for record in stdout.read()] == [{"a": 1}, {"a": 1, "b": 2}]
    assert not list(stdout.read())
    path.write_text(line("c", value=3))
    assert not list(stdout.read())
    stdout.end()  # the last line may have no newline
    assert [record["settings"] for record in stdout.read()] == [{"a": 1, "b": 2, "c": 3}]
    assert not list(stdout.read())
    stdout.close()
