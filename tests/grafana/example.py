"""A small dashboard that keeps every rule, to break rules in."""

import copy
from collections.abc import Callable
from typing import Any

from tests.grafana.dashboards import Dashboard, read

# A change to the JSON of a dashboard, in place.
Edit = Callable[[Any], object]

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_THROUGHPUT = (
    'sum(rate(mlbench_worker_samples_total{run_id="$run",rank=~"$rank"}[$__rate_interval]))'
)
_LOSS = 'last_over_time(mlbench_run_metric{metric="train_loss",run_id="$run"}[$__range])'


def _marked(name: str, series: str) -> dict[str, object]:
    return {
        "name": name,
        "datasource": _DATASOURCE,
        "expr": f'{series}{{run_id="$run"}} * 1000',
        "step": "2s",
        "target": {"interval": "2s"},
        "useValueForTime": "on",
    }


_EXAMPLE = {
    "uid": "example",
    "title": "Example",
    "tags": ["mlbench"],
    "editable": False,
    "links": [
        {
            "type": "link",
            "title": "Again",
            "url": "/d/example?var-run=$run&${rank:queryparam}&${__url_time_range}",
        },
        {"type": "dashboards", "title": "All", "tags": ["mlbench"]},
    ],
    "annotations": {
        "list": [
            {"name": "Annotations", "builtIn": 1, "datasource": {"uid": "-- Grafana --"}},
            _marked("started", "mlbench_run_started_timestamp_seconds"),
            _marked("ended", "mlbench_run_finished_timestamp_seconds"),
            _marked("goal", "mlbench_run_goal_reached_timestamp_seconds"),
        ]
    },
    "templating": {
        "list": [
            {
                "name": "datasource",
                "type": "datasource",
                "label": "Data source",
                "query": "prometheus",
            },
            {
                "name": "run",
                "type": "query",
                "label": "Run",
                "query": "label_values(mlbench_run_info, run_id)",
                "datasource": _DATASOURCE,
                "refresh": 2,
            },
            {
                "name": "rank",
                "type": "query",
                "label": "Rank",
                "query": {
                    "query": 'label_values(mlbench_run_metric{run_id="$run"}, rank)',
                    "refId": "A",
                },
                "datasource": _DATASOURCE,
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "current": {"text": ["All"], "value": ["$__all"]},
            },
        ]
    },
    "panels": [
        {
            "id": 1,
            "type": "timeseries",
            "title": "Throughput",
            "description": "Samples that all ranks train in a second.",
            "datasource": _DATASOURCE,
            "gridPos": {"x": 0, "y": 0, "w": 24, "h": 8},
            "fieldConfig": {"defaults": {"unit": "suffix: samples/s"}, "overrides": []},
            "targets": [{"refId": "A", "expr": _THROUGHPUT, "range": True, "instant": False}],
        },
        {
            "id": 2,
            "type": "row",
            "title": "More",
            "collapsed": True,
            "gridPos": {"x": 0, "y": 8, "w": 24, "h": 1},
            "panels": [
                {
                    "id": 3,
                    "type": "table",
                    "title": "Loss",
                    "description": "The last loss of every rank.",
                    "datasource": _DATASOURCE,
                    "gridPos": {"x": 0, "y": 9, "w": 24, "h": 8},
                    "fieldConfig": {
                        "defaults": {},
                        "overrides": [
                            {
                                "matcher": {"id": "byName", "options": "Loss"},
                                "properties": [{"id": "unit", "value": "none"}],
                            }
                        ],
                    },
                    "transformations": [
                        {"id": "organize", "options": {"renameByName": {"Value #A": "Loss"}}}
                    ],
                    "targets": [
                        {
                            "refId": "A",
                            "expr": _LOSS,
                            "range": False,
                            "instant": True,
                            "format": "table",
                            "datasource": _DATASOURCE,
                        }
                    ],
                }
            ],
        },
    ],
}


def edited(edit: Edit) -> Dashboard:
    """Return the example after a change to its JSON."""
    board = copy.deepcopy(_EXAMPLE)
    edit(board)
    return read("example", board)


def good() -> Dashboard:
    """Return the example as it is."""
    return read("example", _EXAMPLE)


def panel(**fields: object) -> Edit:
    """Return a change of the example's first panel."""
    return lambda board: board["panels"][0].update(fields)


def inner_panel(**fields: object) -> Edit:
    """Return a change of the panel in the example's collapsed row."""
    return lambda board: board["panels"][1]["panels"][0].update(fields)


def target(expr: str) -> Edit:
    """Return a change of the first panel's query."""
    return lambda board: board["panels"][0]["targets"][0].update(expr=expr)


def variable(number: int, **fields: object) -> Edit:
    """Return a change of one of the example's variables."""
    return lambda board: board["templating"]["list"][number].update(fields)
