"""Lines of a metrics stream: what is a sample, what is malformed, and how values are spelled."""

import json
import math
from typing import Any

import pytest

from master.recording.samples import (
    MALFORMED,
    MAX_MACHINE_BYTES,
    MAX_TEXT_LENGTH,
    Sample,
    Settings,
    Stated,
    number_or_text,
    parse_lines,
    parse_posted,
    series_name,
    spell,
    split_name,
    to_posted_lines,
    whole_lines,
)
from mlbench.records import GitState, Goal, StatedMachine

RECEIVED_US = 1_800_000_000_000_000


def parse(*lines: str | bytes, rank: str = "0") -> list[Stated]:
    data = b"".join((one.encode() if isinstance(one, str) else one) + b"\n" for one in lines)
    return list(parse_lines(data, rank, RECEIVED_US))


def test_one_value() -> None:
    line = '{"name":"train_loss","value":0.31,"time":1763683200.123456}'
    assert parse(line) == [Sample("train_loss", "0", 1_763_683_200_123_456, 0.31)]


def test_several_values_share_a_time_and_the_step_is_one_of_them() -> None:
    line = '{"time":1,"step":12,"metrics":{"train_loss":0.5,"lr":"0.1"}}'
    assert parse(line) == [
        Sample("train_loss", "0", 1_000_000, 0.5),
        Sample("lr", "0", 1_000_000, 0.1),
        Sample("step", "0", 1_000_000, 12.0),
    ]


def test_lines_of_the_same_step_and_millisecond_share_its_sample() -> None:
    def line(time: float, step: int) -> str:
        return json.dumps({"time": time, "step": step, "metrics": {"a": 1}})

    found = parse(line(1.0001, 1), line(1.0002, 1), line(1.0003, 2), line(1.0011, 2))
    steps = [(s.time_us, s.value) for s in found if isinstance(s, Sample) and s.metric == "step"]
    assert steps == [(1_000_100, 1.0), (1_000_300, 2.0), (1_001_100, 2.0)]


def test_a_goal_is_no_sample() -> None:
    line = '{"time":1,"goal":{"metric":"val","value":97,"lower_is_better":false}}'
    assert parse(line) == [Goal("val", 97.0, lower_is_better=False)]


def test_settings_are_no_samples() -> None:
    line = '{"time":1,"settings":{"device":"cpu","compile":false,"rate":0.1,"n":3,"none":null}}'
    stated: dict[str, Any] = {
        "device": "cpu",
        "compile": False,
        "rate": 0.1,
        "n": 3,
        "none": None,
    }
    assert parse(line) == [Settings(stated)]


def test_a_machine_is_no_sample() -> None:
    facts = {"hostname": "a", "cpu_limit": 2, "gpus": ["x"], "git": {"commit": "c", "dirty": None}}
    stated = StatedMachine(hostname="a", cpu_limit=2.0, gpus=("x",), git=GitState(commit="c"))
    assert parse(json.dumps({"time": 1, "machine": facts | {"of a later version": 1}})) == [stated]


def test_as_large_a_machine_as_is_taken() -> None:
    packages = {f"package-{number}": "1.2.3" for number in range(2000)}
    line = json.dumps({"time": 1, "machine": {"packages": packages}})
    line += " " * (MAX_MACHINE_BYTES - len(line))
    assert parse(line) == [StatedMachine(packages=packages)]
    [sample] = parse(f"{line} ")
    assert isinstance(sample, Sample)
    assert sample.metric == MALFORMED


def test_a_line_may_name_its_rank() -> None:
    [sample] = parse('{"name":"a","value":1,"time":1,"rank":"3"}', rank="")
    assert sample == Sample("a", "3", 1_000_000, 1.0)
    [sample] = parse('{"name":"a","value":1,"time":1,"rank":3}', rank="")
    assert sample == Sample("a", "3", 1_000_000, 1.0)


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        '{"name":"a","value":1,"time":1',
        "[]",
        "3",
        "null",
        '"text"',
        "{}",
        '{"name":"a","value":1}',
        '{"name":"a","value":1,"time":"now"}',
        '{"name":"a","value":1,"time":true}',
        '{"name":"a","value":1,"time":NaN}',
        '{"name":"a","value":1,"time":Infinity}',
        '{"name":"a","value":1,"time":253402300800}',
        '{"name":"a","value":1,"time":-62135596801}',
        '{"name":"","value":1,"time":1}',
        '{"name":[1],"value":1,"time":1}',
        '{"name":{},"value":1,"time":1}',
        '{"name":null,"value":1,"time":1}',
        '{"name":"a","time":1}',
        '{"name":"a","value":null,"time":1}',
        '{"name":"a","value":true,"time":1}',
        '{"name":"a","value":[1],"time":1}',
        '{"name":"a","value":1,"time":1,"rank":{}}',
        '{"name":"a","value":1,"time":1,"step":[1]}',
        '{"time":1,"metrics":[1]}',
        '{"time":1,"metrics":{"":1}}',
        '{"time":1,"metrics":{"good":1,"bad":null}}',
        '{"time":1,"goal":{}}',
        '{"time":1,"goal":"97"}',
        '{"time":1,"goal":{"metric":["a"],"value":97}}',
        '{"time":1,"goal":{"metric":"a","value":"high"}}',
        '{"time":1,"goal":{"metric":"a","value":NaN}}',
        '{"settings":{"a":1}}',
        '{"time":1,"settings":[1]}',
        '{"time":1,"settings":null}',
        '{"time":1,"settings":{"a":[1]}}',
        '{"time":1,"settings":{"a":NaN}}',
        '{"time":1,"settings":{"":1}}',
        r'{"time":1,"settings":{"a":"\u0000"}}',
        r'{"time":1,"settings":{"a":"\ud800"}}',
        json.dumps({"time": 1, "settings": {"a": 2**63}}),
        json.dumps({"time": 1, "settings": {"a": "x" * 1025}}),
        json.dumps({"time": 1, "settings": {f"a{i}": 1 for i in range(101)}}),
        '{"machine":{"hostname":"a"}}',
        '{"time":1,"machine":null}',
        '{"time":1,"machine":[]}',
        '{"time":1,"machine":{"hostname":1}}',
        '{"time":1,"machine":{"cpus":true}}',
        '{"time":1,"machine":{"cpus":1.5}}',
        '{"time":1,"machine":{"cpu_limit":NaN}}',
        '{"time":1,"machine":{"packages":{"torch":2}}}',
        '{"time":1,"machine":{"git":{"dirty":true}}}',
        r'{"time":1,"machine":{"hostname":"\u0000"}}',
        r'{"time":1,"machine":{"hostname":"\ud800"}}',
        r'{"time":1,"machine":{"packages":{"\u0000":"1"}}}',
        r'{"time":1,"machine":{"packages":{"\ud800":"1"}}}',
        json.dumps({"time": 1, "machine": {"memory_bytes": 2**63}}),
        json.dumps({"time": 1, "machine": {"hostname": "x" * 1025}}),
        json.dumps({"time": 1, "machine": {"gpus": ["x" * 1000] * 66}}),
        # Half of a character pair, which neither Prometheus nor a database takes.
        r'{"name":"\ud800","value":1,"time":1}',
        r'{"name":"a","value":"\udc00","time":1}',
        r'{"name":"a","value":1,"time":1,"rank":"\ud800"}',
        r'{"time":1,"goal":{"metric":"\ud800","value":97}}',
        "[" * 100_000,
        "1" * 5_000,
        b"\xff\xfe",
        # NUL, which PostgreSQL does not take.
        r'{"name":"a\u0000","value":1,"time":1}',
        r'{"name":"a","value":"\u0000","time":1}',
        r'{"name":"a","value":1,"time":1,"rank":"\u0000"}',
        json.dumps({"name": "x" * 201, "value": 1, "time": 1}),
        json.dumps({"name": "a", "value": 1, "time": 1, "rank": "x" * 65}),
        json.dumps({"name": "a", "value": 1, "time": 1, "rank": 10**64}),
        '{"name":"a","value":1,"time":1,"rank":true}',
        json.dumps({"name": "a", "value": "x" * (MAX_TEXT_LENGTH + 1), "time": 1}),
        json.dumps({"step": "x" * (MAX_TEXT_LENGTH + 1), "metrics": {"a": 1}, "time": 1}),
        '{"name":"a","value":1,"time":1e400}',
        json.dumps({"time": 1, "metrics": {"a": 1, "x" * 201: 1}}),
    ],
)
def test_what_is_no_sample_is_shown_as_malformed(line: str | bytes) -> None:
    text = line if isinstance(line, str) else line.decode(errors="replace")
    if len(text) > 4096:
        text = f"{text[:4096]}… ({len(text):,} bytes)"
    good = '{"name":"a","value":1,"time":1}'
    assert parse(line, good) == [
        Sample(MALFORMED, "0", RECEIVED_US, text),
        Sample("a", "0", 1_000_000, 1.0),
    ]


def test_of_many_lines_that_are_no_samples_the_first_are_shown() -> None:
    found = parse(*[f"line {i}" for i in range(1_100)])
    assert [sample.value for sample in found if isinstance(sample, Sample)] == [
        *(f"line {i}" for i in range(100)),
        "1,000 more lines that are no samples",
    ]


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("1e400", "1e400"),
        ("-1E999", "-1E999"),
        ("18446744073709551617", "18446744073709551617"),
        ("Infinity", math.inf),
        ("9" * 4300, "9" * 4300),
    ],
)
def test_numbers_that_no_float_holds_are_not_changed(spelled: str, meant: float | str) -> None:
    assert parse(f'{{"name":"a","value":{spelled},"time":1}}') == [
        Sample("a", "0", 1_000_000, meant)
    ]


def test_nul_is_shown_by_another_character() -> None:
    assert parse(b"a\x00\x00") == [Sample(MALFORMED, "0", RECEIVED_US, "a\ufffd\ufffd")]


def test_the_longest_name_is_taken() -> None:
    name = "ü" * 200
    assert parse(json.dumps({"name": name, "value": 1, "time": 1})) == [
        Sample(name, "0", 1_000_000, 1.0)
    ]


def test_empty_lines_are_nothing() -> None:
    assert parse("", "  ", "\t") == []


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (1, 1.0),
        (0.25, 0.25),
        ("0.1", 0.1),
        ("1e-7", 1e-7),
        ("-inf", -math.inf),
        ("best so far", "best so far"),
        ("", ""),
        ("1_000", "1_000"),
        (10**400, str(10**400)),
        (2**53 + 1, str(2**53 + 1)),
        (-(2**53) - 1, str(-(2**53) - 1)),
        (2**60, 2.0**60),
        ("1e400", "1e400"),
        ("-1e400", "-1e400"),
        ("1" * 5_001, "1" * 5_001),
        ("0" * 5_000 + "1", 1.0),
        ("-" + "0" * 5_000 + "9007199254740993", "-" + "0" * 5_000 + "9007199254740993"),
        ("1e-400", "1e-400"),
        ("0e-400", 0.0),
        ("-0.0", -0.0),
        ("Infinity", math.inf),
        ("0.1000000000000000055511151231257827", 0.1),
        # What float() reads too, but nobody means as a number.
        (" 1", " 1"),
        ("1\n", "1\n"),
        ("\u0663", "\u0663"),
    ],
)
def test_numbers_are_told_from_texts(value: object, meant: float | str) -> None:
    assert repr(number_or_text(value)) == repr(meant)


@pytest.mark.parametrize("value", [None, True, [], {}, b"1"])
def test_what_is_neither_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="number or a text"):
        number_or_text(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (200.0, "200"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (1e-7, "1e-07"),
        (1e20, "1" + "0" * 20),
        (-1.5e21, "-1.5e+21"),
        (0.30000000000000004, "0.30000000000000004"),
        (0.0, "0"),
        (-0.0, "-0"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        ("a text", "a text"),
    ],
)
def test_values_are_spelled_as_prometheus_does(value: float | str, text: str) -> None:
    assert spell(value) == text


@pytest.mark.parametrize(
    "sample",
    [
        Sample("train_loss", "1", 1_763_683_200_123_457, 0.1),
        Sample("ü @ \n", "", -1_000_001, "text with \n and \r and \u2028"),
        Sample("a", "", 0, math.inf, cumulative=False),
        Sample("a", "", -62_135_596_800_000_000, -math.inf, cumulative=True),
        Sample("a", "", 253_402_300_799_999_999, 1e300, metadata={"ü": [None, 1.5, "\0\n"]}),
        Sample("a", "", 1, 5e-324, True, ""),
        Sample("a", "", 1, -0.0, None, 0),
        Sample("a", "", 1, 0.30000000000000004, None, []),
        Sample("a", "", 1, 2.0**53, None, False),
        Sample("a", "", 1, str(2**53 + 1)),
        Sample("a", "", 1, ""),
    ],
)
def test_posted_samples_survive_being_written_and_read(sample: Sample) -> None:
    written = to_posted_lines([sample])
    assert written.count(b"\n") == 1
    assert whole_lines(written) == written
    [read] = parse_posted(written)
    assert read == sample
    # Also which zero it is.
    assert repr(read) == repr(sample)


def test_nan_survives_being_written_and_read() -> None:
    [read] = parse_posted(to_posted_lines([Sample("a", "", 1, math.nan)]))
    assert isinstance(read.value, float)
    assert math.isnan(read.value)


def test_the_same_sample_is_written_once_and_any_difference_counts() -> None:
    sample = Sample("a", "1", 1, 1.0, True, {"a": 1})
    different = [
        sample,
        sample._replace(metric="b"),
        sample._replace(rank="2"),
        sample._replace(time_us=2),
        sample._replace(value=2.0),
        sample._replace(cumulative=None),
        sample._replace(metadata={"a": 2}),
    ]
    assert list(parse_posted(to_posted_lines([*different, *reversed(different)]))) == different


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("train_loss @ 0", ("train_loss", "0")),
        ("val_global_Prec@1 @ 12", ("val_global_Prec@1", "12")),
        ("val_global_Prec@1", ("val_global_Prec@1", "")),
        ("a @ 1 @ 2", ("a @ 1", "2")),
        ("a @ b", ("a @ b", "")),
        ("a@1", ("a@1", "")),
        (" @ 1", (" @ 1", "")),
        ("a @ ", ("a @ ", "")),
    ],
)
def test_names_on_the_api_are_split_and_joined(name: str, meant: tuple[str, str]) -> None:
    assert split_name(name) == meant
    assert series_name(*meant) == name


def test_only_whole_lines_are_taken() -> None:
    assert whole_lines(b"a\nb\nc") == b"a\nb\n"
    assert whole_lines(b"abc") == b""
    assert whole_lines(b"") == b""
