"""Dashboards of a run with 200 ranks are readable: no panel draws more than 25 series."""

import time
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.watching import WORKERS, watched_workers
from tests.conftest import wait_for
from tests.support.dashboards import Dashboard, load_all
from tests.support.panels import Grafana, View

_READABLE = 25
# These panels show a page, row or bar per worker, or count similar workers.
_OF_ANY_NUMBER = {"table", "heatmap", "state-timeline", "barchart"}
# A busy machine cannot scrape all workers in time, so half of them must suffice.
_MANY = f"count(run_rank:mlbench_worker_straggler:ratio1m) > {WORKERS / 2}"


@pytest.mark.slow
def test_no_panel_draws_all_of_200_ranks(prometheus_binary: Path, tmp_path: Path) -> None:
    began = time.time()
    with watched_workers(tmp_path) as prometheus:
        wait_for(lambda: prometheus.query(_MANY, time.time()), 120, "the rules know the ranks")
        grafana = Grafana(prometheus, View("big", began, time.time(), "1"))
        drawn = {place: n for board in load_all() for place, n in _series(board, grafana).items()}
    assert not [f"{place}: {n} series" for place, n in drawn.items() if n > _READABLE]
    assert any(drawn.values())


def _series(board: Dashboard, grafana: Grafana) -> Counter[str]:
    """Count the series of each panel. The phases of a bar count as one."""
    panels = {panel["title"] for panel in board.panels if panel["type"] not in _OF_ANY_NUMBER}
    counts: Counter[str] = Counter()
    for query in grafana.queries(board):
        if query.place in panels:
            labels = [dict(result.labels) for result in grafana.ask(query)]
            series = {str(entry | dict.fromkeys(("metric", "phase"))) for entry in labels}
            counts[f"{board.uid} / {query.place}"] += len(series)
    return counts
