"""What a PromQL query selects is read right."""

import pytest

from tests.grafana.promql import Matcher, Selector, selectors


def test_a_selector_knows_its_matchers_range_and_functions() -> None:
    query = 'sum by (run_id) (rate(steps_total{run_id=~"$run", rank!="0"}[$__rate_interval]))'
    assert selectors(query) == [
        Selector(
            name="steps_total",
            matchers=(Matcher("run_id", "=~", "$run"), Matcher("rank", "!=", "0")),
            range="$__rate_interval",
            functions=("rate", "sum"),
        )
    ]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("up", ["up"]),
        ("a / on (pod) group_left (run_id) b{pod='}'} > bool 1e3", ["a", "b"]),
        ("sum(a) by (pod) + sum without (x) (b)", ["a", "b"]),
        ('{__name__="x"} and run:steps:rate1m', ["", "run:steps:rate1m"]),
        ("max_over_time(rate(a[1m])[${__range}:2s]) - b offset 5m", ["a", "b"]),
        ('label_replace(a, "x", "$1", "y", "(.*)") or vector(0)', ["a"]),
        ("histogram_quantile(0.95, sum by (le) (rate(h_bucket[1m])))", ["h_bucket"]),
        ("topk($top, a) * Inf", ["a"]),
        ("time() - a @ end()", ["a"]),
    ],
)
def test_the_selected_series(query: str, names: list[str]) -> None:
    assert [found.name for found in selectors(query)] == names
