"""Variables are filled in as Grafana does it."""

import pytest

from tests.grafana.example import edited, variable
from tests.grafana.templating import (
    Chosen,
    Scope,
    TimeRange,
    offered_labels,
    options_in,
    seconds,
    variable_argument,
)

RUN = Scope({"run": Chosen(("7",)), "ranks": Chosen(("0", "1.5"), is_list=True)})


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ('a{run_id="$run"}', 'a{run_id="7"}'),
        ('a{run_id="${run}", x="[[run]]"}', 'a{run_id="7", x="7"}'),
        ('a{rank=~"$ranks"}', r'a{rank=~"(0|1\\.5)"}'),
        ("${ranks:pipe} ${ranks:csv} ${ranks:regex}", r"0|1.5 0,1.5 (0|1\.5)"),
        ('label_replace(a, "b", "$1", "c", "(.*)$")', 'label_replace(a, "b", "$1", "c", "(.*)$")'),
    ],
)
def test_variables_are_filled_in(text: str, filled: str) -> None:
    assert RUN.fill(text) == filled


def test_all_values_are_a_list_or_what_the_variable_says() -> None:
    everything = Chosen(("a", "b"), is_list=True, all_value=".+")
    assert Scope({"pod": everything}).fill("$pod ${pod:csv}") == ".+ a,b"


def test_an_unknown_variable_or_format_is_an_error() -> None:
    with pytest.raises(KeyError):
        RUN.fill("$runs")
    with pytest.raises(ValueError, match="not known"):
        RUN.fill("${run:lucene}")


@pytest.mark.parametrize(
    ("length", "least", "interval", "rate_interval"),
    [
        (60, 2, "2000ms", "8000ms"),
        (60, 0.1, "100ms", "400ms"),
        (86400, 2, "86400ms", "88400ms"),
    ],
)
def test_intervals_follow_the_time_range(
    length: int, least: float, interval: str, rate_interval: str
) -> None:
    built_in = TimeRange(0, length).built_in(least)
    assert built_in["__interval"] == interval
    assert built_in["__rate_interval"] == rate_interval
    assert built_in["__range_s"] == f"{length}"


def test_durations() -> None:
    assert seconds("1m30s") == 90
    assert seconds(">500ms") == 0.5
    assert seconds("") == 0


@pytest.mark.parametrize(
    ("regex", "options"),
    [
        ("", ['{name="a",run_id="1"}', '{name="b",run_id="2"}']),
        (r'/run_id="(\d+)"/', ["1", "2"]),
        (r'/name="(?<text>[^"]+)|run_id="(?<value>[^"]+)/g', ["1", "2"]),
        ('/name="b"/', ['name="b"']),
    ],
)
def test_a_regex_picks_the_values(regex: str, options: list[str]) -> None:
    assert options_in(['{name="b",run_id="2"}', '{name="a",run_id="1"}'], regex) == options


@pytest.mark.parametrize(
    ("query", "regex", "argument", "labels"),
    [
        ("label_values(up, job)", "", "up", {"job"}),
        ('label_values(up{a="b,c"},job)', "", 'up{a="b,c"}', {"job"}),
        ("label_values(job)", "", "", {"job"}),
        ("query_result(max by (a, b) (up))", '/b="(.*)"/', "max by (a, b) (up)", {"b"}),
        ("metrics(up.*)", "", "", set()),
    ],
)
def test_what_a_variable_asks_and_offers(
    query: str, regex: str, argument: str, labels: set[str]
) -> None:
    asked = edited(variable(1, query=query, regex=regex)).variables[1]
    assert variable_argument(query) == argument
    assert offered_labels(asked) == labels
