"""Every query of every dashboard finds data in a real Prometheus, of ended runs and an active one.

One test asks them all: the stack and its runs take most of the time, and are made once.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.reading.promql import PrometheusError
from tests.grafana.asking import Grafana, Query
from tests.grafana.columns import unknown_columns
from tests.grafana.dashboards import Dashboard, load_all
from tests.grafana.empty import MAY_BE_EMPTY, MayBeEmpty
from tests.grafana.runs import Used, used_stack


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_query_finds_data(prometheus_binary: Path, tmp_path: Path) -> None:
    boards = load_all()
    with used_stack(prometheus_binary, tmp_path / "stack") as used:
        _check_that_faults_are_found(used, boards)
        faults = [fault for board in boards for fault in _faults(board, used, MAY_BE_EMPTY)]
    assert not faults, "\n" + "\n".join(faults)


def test_exclusions_are_of_places_that_exist() -> None:
    known = set()
    for board in load_all():
        known |= {f"{board.uid} / {place}" for place, _ in board.queries}
        known |= {
            f"{board.uid} / {panel['title']} / {target['refId']}"
            for panel in board.panels
            for target in panel["targets"]
        }
    assert {place for one in MAY_BE_EMPTY for place in one.places} <= known


def _check_that_faults_are_found(used: Used, boards: list[Dashboard]) -> None:
    """See that what is wrong in a dashboard is found out."""
    runs = next(board for board in boards if board.uid == "mlbench-runs")
    wrong = Dashboard(runs.uid, json.loads(json.dumps(runs.json)))
    first, second, *_ = (target for panel in wrong.panels for target in panel["targets"])
    first["expr"], second["expr"] = "no_such_series", "sum("
    wrong.variables[1]["definition"] = "label_values(up, rank)"
    wrong.panels[-1]["transformations"].clear()
    needless = MayBeEmpty("", "no_such_series", ("mlbench-runs / annotation Run started",))
    found = "\n".join(_faults(wrong, used, (*MAY_BE_EMPTY, needless)))
    for what in (
        "finds no data: no_such_series",
        "PrometheusError",
        "variable benchmark: finds no data",
        "has no columns",
        "annotation Run started: finds data, though there is no no_such_series",
    ):
        assert what in found


def _faults(board: Dashboard, used: Used, may_be_empty: tuple[MayBeEmpty, ...]) -> Iterator[str]:
    """Yield what is wrong with the answers to a dashboard, each with its place."""
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for view in (used.finished, used.active):
        grafana = Grafana(used.prometheus, view)
        for query in grafana.queries(board):
            place = f"{board.uid} / {query.place}"
            try:
                series = grafana.ask(query) if query.options is None else []
                labels[query.place].update(label for one in series for label in one.labels)
                places = {place, f"{place} / {query.ref}"}
                reasons = [one for one in may_be_empty if places.intersection(one.places)]
                fault = _fault(grafana, query, bool(query.options or series), reasons)
            except (PrometheusError, KeyError) as error:
                fault = repr(error)
            if fault:
                yield f"{view.name}: {place}{query.ref and ' / '}{query.ref}: {fault}"
    for panel in board.panels:
        found = labels[panel["title"]]
        is_table = all(one["format"] == "table" for one in panel["targets"])
        if found and is_table and (unknown := unknown_columns(panel, found)):
            yield f"{board.uid} / {panel['title']}: has no columns {sorted(unknown)}"


def _fault(grafana: Grafana, query: Query, has_data: bool, reasons: list[MayBeEmpty]) -> str:
    """Return what is wrong with an answer; empty if it is as it should be."""
    lacking = [one.lacking for one in reasons if not grafana.ask(query.asking(one.lacking))]
    if lacking and has_data:
        return f"finds data, though there is no {lacking[0]}: the exclusion is needless"
    if not lacking and not has_data:
        return f"finds no data: {query.expr}"
    return ""
