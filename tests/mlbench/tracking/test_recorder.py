"""The metrics file: each call writes one whole line, for any value."""

import json
import math
import re
import resource
import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mlbench.contract.clock import SteadyClock
from mlbench.contract.records import Target
from mlbench.tracking.recorder import Recorder, Value
from mlbench_master.recording.samples import Sample, TaskSettings, parse_lines
from tests.support.processes import run_text


@pytest.fixture
def recorder(path: Path) -> Recorder:
    return Recorder(path)


def test_a_line_has_time_step_and_metrics(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SteadyClock, "now", lambda self: 1763683200.1234561)
    recorder.write({"train_loss": 0.31, "learning_rate": 0.1}, step=12)
    recorder.write({"note": "warm"}, step=None)
    assert path.read_text() == (
        '{"time":1763683200.123456,"step":12,"metrics":{"train_loss":0.31,"learning_rate":0.1}}\n'
        '{"time":1763683200.123456,"metrics":{"note":"warm"}}\n'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((3, "3.0"), (True, "1.0"), (0.1, "0.1"), (1e-300, "1e-300")),
        *((np.float32(0.5), "0.5"), (np.int64(-7), "-7.0"), (np.array(0.25), "0.25")),
        *((torch.tensor(0.25), "0.25"), (torch.tensor(3), "3.0"), (torch.tensor([0.5]), "0.5")),
        (torch.tensor(1.5, dtype=torch.bfloat16), "1.5"),
        # The conversion must not cause a warning.
        (torch.tensor(0.5, requires_grad=True) * 2, "1.0"),
        *((Decimal("0.125"), "0.125"), (Fraction(1, 4), "0.25")),
        *((math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")),
        *((np.float32("nan"), "NaN"), (torch.tensor(-math.inf), "-Infinity")),
        *(("diverged", '"diverged"'), ("", '""')),
        ('"quoted"\n\\ and é', r'"\"quoted\"\n\\ and \u00e9"'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_becomes_json(recorder: Recorder, path: Path, value: Value, text: str) -> None:
    recorder.write({"v": value}, step=None)
    assert path.read_text().endswith('"metrics":{"v":' + text + "}}\n")


@pytest.mark.parametrize("value", [None, [1.0], 1j, {}, np.ones(2)], ids=repr)
def test_only_numbers_and_texts_are_accepted(recorder: Recorder, path: Path, value: Any) -> None:
    with pytest.raises(TypeError, match=r"^metric 'v': "):
        recorder.write({"fine": 1.0, "v": value}, step=1)
    with pytest.raises(ValueError, match=r"metric name: must be a string of 1 to 200 .* \(got 5"):
        recorder.write({5: 1.0}, step=1)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="'rate' must be"):
        recorder.write_settings({"device": "cpu", "rate": math.nan})
    assert path.read_text() == ""


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"v": "a\0"}, "metric 'v': a text of at most 65536 characters, without NUL"),
        ({"v": "\ud800"}, "metric 'v': .* surrogates not allowed"),
        ({"v": "x" * (64 << 10) + "x"}, "metric 'v': a text of at most 65536 characters"),
        ({"v": torch.empty((), device="meta")}, "metric 'v': .* meta tensors"),
        ({"a\0": 1.0}, "metric name: .* without NUL or surrogates"),
        ({"\ud800": 1.0}, "metric name: .* without NUL or surrogates"),
    ],
)
def test_invalid_names_and_texts_are_refused(
    recorder: Recorder, path: Path, values: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        recorder.write({"fine": 1.0, **values}, step=1)
    assert path.read_text() == ""


class Variable:
    """A number like Keras's ``optimizer.iterations``."""

    def __float__(self) -> float:
        return 12.0


@pytest.mark.parametrize(
    ("step", "text"),
    [
        *((12, "12"), (-1, "-1"), (True, "1"), (12.0, "12"), (2.5, "2.5"), ("12", "12")),
        *((np.int64(12), "12"), (np.array([12]), "12"), (Variable(), "12")),
        *((torch.zeros(1, dtype=torch.long), "0"), (torch.tensor(2**60 + 1), str(2**60 + 1))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_step_becomes_a_number(recorder: Recorder, path: Path, step: Any, text: str) -> None:
    recorder.write({"v": 1.0}, step=step)
    assert f'"step":{text},"metrics"' in path.read_text()


@pytest.mark.parametrize(
    ("step", "error"),
    [
        *((step, TypeError) for step in ([1], "first", np.ones(2), torch.ones(1000))),
        (torch.empty((), device="meta"), TypeError),
        *((step, ValueError) for step in (math.nan, np.float32("inf"))),
    ],
)
def test_a_step_that_is_not_a_number_is_refused(
    recorder: Recorder, path: Path, step: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"(?s)^step: must be .{,20} \(got .{,80}\)\. "):
        recorder.write({"v": 1.0}, step=step)
    assert path.read_text() == ""


@pytest.mark.parametrize("name", ["val_Prec@1", 'a "b"', "back\\slash", "line\nend", "é", "a @ 3"])
def test_any_name_can_be_read_back(recorder: Recorder, path: Path, name: str) -> None:
    recorder.write({name: 1.0}, step=None)
    recorder.write({name: 2.0}, step=None)
    lines = path.read_text().splitlines()
    assert [json.loads(line)["metrics"] for line in lines] == [{name: 1.0}, {name: 2.0}]


def test_the_master_can_parse_every_line(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SteadyClock, "now", lambda self: 1763683200.123456)
    recorder.write_goal("loss", 0.1, lower_is_better=True)
    recorder.write_settings({"device": "cpu é", "rate": np.float64(0.1), "compile": False})
    recorder.write({"loss": np.float32(0.5), "at é": "text", "up": math.inf}, step=3)
    time_us = 1763683200123456
    content = parse_lines(path.read_bytes(), "1", received_us=0)
    settings = TaskSettings({"device": "cpu é", "rate": 0.1, "compile": False})
    assert content.facts == [Target("loss", 0.1, lower_is_better=True), settings]
    assert content.samples == [
        Sample("loss", "1", time_us, 0.5),
        Sample("at é", "1", time_us, "text"),
        Sample("up", "1", time_us, math.inf),
        Sample("step", "1", time_us, 3.0),
    ]


def test_a_line_that_only_partly_fits_is_an_error(path: Path) -> None:
    room = 100
    code = (
        "import pathlib, sys; from mlbench.tracking.recorder import Recorder\n"
        "recorder = Recorder(pathlib.Path(sys.argv[1]))\n"
        "recorder.write({'a': 1.0}, step=1); recorder.write({'a': 2.0}, step=2)"
    )
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (room, room))
    done = run_text([sys.executable, "-c", code, path], preexec_fn=limit)
    assert re.search("OSError: metrics file full: a line was cut", done.stderr)
    assert path.stat().st_size == room
