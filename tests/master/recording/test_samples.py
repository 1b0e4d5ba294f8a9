"""Lines of a metrics stream: samples, statements, and malformed lines."""

import json
import math
from typing import Any

import pytest

from mlbench.contract.limits import MAX_METRIC_TEXT_LENGTH
from mlbench.contract.line_chunks import whole_lines
from mlbench.contract.process import ProcessRank
from mlbench.contract.records import GitState, Interference, ReportedMachine, Target
from mlbench.contract.series import SeriesKey
from mlbench_master.recording.samples import (
    MALFORMED,
    MAX_MACHINE_BYTES,
    MAX_METADATA_BYTES,
    Began,
    Fact,
    Sample,
    TaskSettings,
    Unrecorded,
    parse_lines,
    parse_posted,
    prometheus_labels,
    to_posted_lines,
)
from tests.support.rows import QUIET

RECEIVED_US = 1_800_000_000_000_000


def parse(*lines: str | bytes, rank: str = "0") -> list[Sample | Fact]:
    data = b"".join((one.encode() if isinstance(one, str) else one) + b"\n" for one in lines)
    content = parse_lines(data, rank, RECEIVED_US)
    return [*content.samples, *content.facts]


def test_one_value() -> None:
    line = '{"name":"train_loss","value":0.31,"time":1763683200.123456}'
    assert parse(line, "", " \t") == [Sample("train_loss", "0", 1_763_683_200_123_456, 0.31)]


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


def test_facts_about_a_run_are_not_samples() -> None:
    settings: dict[str, Any] = {"device": "cpu", "compile": False, "rate": 0.1, "none": None}
    facts = {"hostname": "a", "cpu_limit": 2, "gpus": ["x"], "git": {"commit": "c", "dirty": None}}
    assert parse(
        '{"time":1,"goal":{"metric":"val","value":97,"lower_is_better":false}}',
        json.dumps({"time": 1, "settings": settings}),
        json.dumps({"time": 1, "machine": facts | {"of a later version": 1}}),
        json.dumps({"time": 1, "interference": QUIET | {"of a later version": 1}}),
    ) == [
        Target("val", 97.0, lower_is_better=False),
        TaskSettings(settings),
        ReportedMachine(hostname="a", cpu_limit=2.0, gpus=("x",), git=GitState(commit="c")),
        Interference(**QUIET),
    ]


def test_the_largest_machine() -> None:
    packages = {f"package-{number}": "1.2.3" for number in range(2000)}
    line = json.dumps({"time": 1, "machine": {"packages": packages}})
    line += " " * (MAX_MACHINE_BYTES - len(line))
    assert parse(line) == [ReportedMachine(packages=packages)]
    sample, _ = parse(f"{line} ")
    assert isinstance(sample, Sample)
    assert sample.metric == MALFORMED


@pytest.mark.parametrize("rank", ['"3"', "3"])
def test_a_line_may_name_its_rank(rank: str) -> None:
    line = f'{{"name":"a","value":1,"time":1,"rank":{rank}}}'
    assert parse(line, rank="") == [Sample("a", "3", 1_000_000, 1.0)]


def test_the_step_is_that_of_the_rank_of_its_line() -> None:
    lines = [f'{{"time":1,"rank":{rank},"step":7,"metrics":{{"a":1}}}}' for rank in (2, 3)]
    found = parse("\n".join(lines), rank="1")
    keys = [sample[:2] for sample in found if isinstance(sample, Sample)]
    assert keys == [("a", "2"), ("step", "2"), ("a", "3"), ("step", "3")]


def test_a_process_reports_its_rank_and_restart() -> None:
    line = '{"time":5,"process":{"rank":3,"world_size":4,"restart":1}}'
    assert parse(line) == [Began(ProcessRank(3, 4, 1), 5.0)]


def test_a_line_may_have_metadata() -> None:
    line = '{"name":"a","value":1,"time":1,"cumulative":true,"metadata":{"b":[2]}}'
    assert parse(line) == [Sample("a", "0", 1_000_000, 1.0, True, {"b": [2]})]


MALFORMED_LINES: list[str | bytes] = [
    *("no JSON", '{"name":"a","value":1,"time":1', "[]", "3", "null", '"text"', "{}"),
    *("[" * 100_000, "1" * 5_000, b"\xff\xfe", "\0"),
    *(
        f'{{"name":"a","value":1,"time":{time}}}'
        for time in ('"now"', "true", "NaN", "Infinity", "253402300800", "-62135596801", "1e400")
    ),
    # Half a surrogate pair, which Prometheus does not take, and NUL, which PostgreSQL does not.
    *(
        f'{{"name":{name},"value":1,"time":1}}'
        for name in ('""', "[1]", "null", r'"\ud800"', r'"a\u0000"', f'"{"x" * 201}"')
    ),
    *(
        f'{{"name":"a","value":{value},"time":1}}'
        for value in ("null", "true", "[1]", r'"\udc00"', r'"\u0000"', '"' + "x" * 65_537 + '"')
    ),
    *(
        f'{{"name":"a","value":1,"time":1,"rank":{rank}}}'
        for rank in ("{}", "true", r'"\ud800"', '""', "-1", "1.0", "100000", f'"{"9" * 5000}"')
    ),
    *(
        f'{{"time":1,"process":{{"rank":{rank},"world_size":{size},"restart":{restart}}}}}'
        for rank, size, restart in [(4, 4, 0), (-1, 4, 0), (0, "true", 0), (0, 1, "null")]
    ),
    '{"time":1,"process":[]}',
    '{"name":"a","value":1,"time":1,"metadata":"' + "x" * MAX_METADATA_BYTES + '"}',
    '{"name":"a","value":1}',
    '{"name":"a","time":1}',
    '{"name":"a","value":1,"time":1,"step":[1]}',
    json.dumps({"step": "x" * (MAX_METRIC_TEXT_LENGTH + 1), "metrics": {"a": 1}, "time": 1}),
    *(
        f'{{"time":1,"metrics":{metrics}}}'
        for metrics in ("[1]", '{"":1}', '{"good":1,"bad":null}', f'{{"a":1,"{"x" * 201}":1}}')
    ),
    *(
        f'{{"time":1,"goal":{target}}}'
        for target in (
            *("{}", '"97"', '{"metric":["a"],"value":97}', '{"metric":"a","value":"high"}'),
            *('{"metric":"a","value":NaN}', r'{"metric":"\ud800","value":97}'),
        )
    ),
    '{"settings":{"a":1}}',
    *(
        f'{{"time":1,"settings":{settings}}}'
        for settings in (
            *("[1]", "null", '{"a":[1]}', '{"a":NaN}', '{"":1}', r'{"a":"\u0000"}'),
            *(r'{"a":"\ud800"}', f'{{"a":{2**63}}}', f'{{"a":"{"x" * 1025}"}}'),
        )
    ),
    json.dumps({"time": 1, "settings": {f"a{i}": 1 for i in range(501)}}),
    '{"machine":{"hostname":"a"}}',
    *(
        f'{{"time":1,"machine":{machine}}}'
        for machine in (
            *("null", "[]", '{"hostname":1}', '{"cpus":true}', '{"cpus":1.5}', '{"cpu_limit":NaN}'),
            *('{"packages":{"torch":2}}', '{"git":{"dirty":true}}', r'{"hostname":"\u0000"}'),
            *(r'{"packages":{"\ud800":"1"}}', f'{{"memory_bytes":{2**63}}}'),
            f'{{"hostname":"{"x" * 1025}"}}',
        )
    ),
    *(
        json.dumps({"time": 1, "interference": QUIET | wrong})
        for wrong in ({"seconds": 0}, {"cores": 0}, {"seconds": None}, {"top": {"a": "1"}})
    ),
]


@pytest.mark.parametrize("line", MALFORMED_LINES, ids=lambda line: str(line)[:40])
def test_malformed_lines_are_reported_and_the_others_are_read(line: str | bytes) -> None:
    text = line if isinstance(line, str) else line.decode(errors="replace")
    text = text.replace("\0", "\ufffd")
    if len(text) > 4096:
        text = f"{text[:4096]}… ({len(text):,} bytes)"
    assert parse(line, '{"name":"a","value":1,"time":1}') == [
        Sample(MALFORMED, "0", RECEIVED_US, text),
        Sample("a", "0", 1_000_000, 1.0),
        Unrecorded({"malformed_lines": 1}),
    ]


def test_only_the_first_malformed_lines_are_shown() -> None:
    found = parse(*[f"line {i}" for i in range(1_100)])
    assert [sample.value for sample in found if isinstance(sample, Sample)] == [
        *(f"line {i}" for i in range(100)),
        "1,000 more lines that are no samples",
    ]
    assert found[-1] == Unrecorded({"malformed_lines": 1_100})


_TOO_LARGE = ("1e400", "18446744073709551617", "9" * 4300)


@pytest.mark.parametrize("number", [*_TOO_LARGE, "Infinity"])
def test_numbers_that_no_float_holds_become_texts(number: str) -> None:
    name = "ü" * 200  # the longest
    line = f'{{"name":"{name}","value":{number},"time":1}}'
    meant = math.inf if number == "Infinity" else number
    assert parse(line) == [Sample(name, "0", 1_000_000, meant)]


@pytest.mark.parametrize(
    "sample",
    [
        Sample("train_loss", "1", 1_763_683_200_123_457, 0.1),
        Sample("ü @ \n", "", -1_000_001, "text with \n and \r and \u2028"),
        Sample("a", "", 0, math.inf, cumulative=False),
        Sample("a", "", -62_135_596_800_000_000, -math.inf, cumulative=True),
        Sample("a", "", 253_402_300_799_999_999, 1e300, metadata={"ü": [None, 1.5, "\0\n"]}),
        Sample("a", "", 1, -0.0, None, 0),
        Sample("a", "", 1, str(2**53 + 1), True, ""),
        Sample("a", "", 1, math.nan),
    ],
)
def test_posted_samples_are_read_as_they_were_written(sample: Sample) -> None:
    written = to_posted_lines([sample])
    assert written.count(b"\n") == 1
    assert whole_lines(written) == written
    # As texts, by which zeros differ and NaN does not.
    assert list(map(repr, parse_posted(written))) == [repr(sample)]


def test_the_same_sample_is_written_once_and_any_difference_counts() -> None:
    sample = Sample("a", "1", 1, 1.0, True, {"a": 1})
    changes: dict[str, Any] = {"metric": "b", "rank": "2", "time_us": 2, "value": 2.0}
    changes |= {"cumulative": None, "metadata": {"a": 2}}
    different = [sample, *(sample._replace(**{name: new}) for name, new in changes.items())]
    assert list(parse_posted(to_posted_lines([*different, *reversed(different)]))) == different


@pytest.mark.parametrize("key", [("train_loss", "0"), ("Prec@1", ""), ("a @ b", "")])
def test_labels_in_prometheus(key: SeriesKey) -> None:
    labels = {"__name__": "mlbench_run_metric", "run_id": "7", "metric": key[0]}
    assert prometheus_labels("run/7", key) == labels | ({"rank": key[1]} if key[1] else {})
