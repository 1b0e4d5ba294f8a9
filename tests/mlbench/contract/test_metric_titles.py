"""Titles of metrics. The web pages are tested with the same examples."""

import json
from pathlib import Path

import pytest

from mlbench.contract import names
from mlbench.contract.metric_titles import metric_title

_EXAMPLES = Path(__file__).parents[2] / "web" / "js" / "metric-titles.json"


@pytest.mark.parametrize(("name", "title"), json.loads(_EXAMPLES.read_text()).items())
def test_a_metric_has_the_same_title_as_on_the_web_pages(name: str, title: str) -> None:
    assert metric_title(name) == title


def test_metrics_of_the_benchmarks_have_titles() -> None:
    recorded = (names.VAL_ACCURACY, names.VAL_ACCURACY5, names.VAL_LOSS, names.VAL_PERPLEXITY)
    for name in (*recorded, names.VAL_R2, names.TRAIN_ACCURACY, *names.OF_EACH_STEP):
        assert metric_title(name) != name
