"""Every query of every dashboard finds data in a real Prometheus, of ended runs and an active one.

One test asks them all: so the stack and its runs, which take most of the time, are made once,
however many processes share out the tests.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from master.reading.promql import PrometheusError
from mlbench import names
from tests.grafana.asking import Grafana, Query
from tests.grafana.columns import is_table, unknown_columns
from tests.grafana.dashboards import Dashboard, load_all
from tests.grafana.example import edited, good, inner_panel, target, variable
from tests.grafana.exclusions import MAY_BE_EMPTY, MayBeEmpty, Place
from tests.grafana.runs import Used, used_stack

# Of the local stack's Prometheus.
_SCRAPE_SECONDS = 2.0


@pytest.mark.timeout(300)
def test_every_query_finds_data(prometheus_binary: Path, tmp_path: Path) -> None:
    boards = load_all()
    with used_stack(prometheus_binary, tmp_path / "stack") as used:
        _check_that_faults_are_found(used)
        faults = [fault for board in boards for fault in _faults(board, used, MAY_BE_EMPTY)]
    assert not faults, "\n" + "\n".join(faults)


def test_exclusions_are_of_places_that_exist() -> None:
    known = {(board.uid, *place) for board in load_all() for place in _places(board)}
    excluded = {
        (place.dashboard, place.title, ref_id)
        for one in MAY_BE_EMPTY
        for place in one.places
        for ref_id in place.ref_ids or ("",)
    }
    assert excluded - known == set()


def _check_that_faults_are_found(used: Used) -> None:
    """See that the example has data, and that what is wrong in it is found out."""
    ended, goal = (
        MayBeEmpty(f"{series}{{run_id='$run'}}", "", (Place("example", f"annotation {what}"),))
        for what, series in (("ended", names.RUN_FINISHED), ("goal", names.RUN_GOAL_REACHED))
    )
    assert list(_faults(good(), used, (ended, goal))) == []

    [fault] = _faults(good(), used, (ended,))
    assert fault.startswith("active: example / annotation goal : finds no data")
    [fault] = _faults(good(), used, (ended, replace(goal, lacking="no_such_series")))
    assert "the exclusion is needless" in fault
    for edit, what in (
        (target("no_such_series"), "finds no data"),
        (target("sum("), "PrometheusError"),
        (target("up{job='$job'}"), "KeyError"),
        (variable(2, query="label_values(up, rank)"), "variable rank : finds no data"),
        (inner_panel(transformations=[]), "has no columns"),
    ):
        assert what in "".join(_faults(edited(edit), used, (ended, goal)))


def _faults(board: Dashboard, used: Used, may_be_empty: tuple[MayBeEmpty, ...]) -> Iterator[str]:
    """Yield what is wrong with the answers to a dashboard, each with its place."""
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for view in (used.finished, used.active):
        grafana = Grafana(used.prometheus, _SCRAPE_SECONDS, view)
        asked, scope = grafana.choose(board)
        answers = [(one.query, bool(one.options)) for one in asked]
        for query in grafana.queries(board, scope, asked):
            try:
                series = grafana.ask(query)
            except (PrometheusError, KeyError, ValueError) as error:
                yield f"{view.name}: {board.uid} / {query.place} {query.ref_id}: {error!r}"
                continue
            answers.append((query, bool(series)))
            labels[query.place].update(label for one in series for label in one.labels)
        for query, has_data in answers:
            exclusions = [one for one in may_be_empty if _is_for(one, board, query)]
            if fault := _fault(grafana, query, has_data, exclusions):
                yield f"{view.name}: {board.uid} / {query.place} {query.ref_id}: {fault}"
    for panel in board.panels:
        found = labels[panel.title]
        if found and is_table(panel) and (unknown := unknown_columns(panel, found)):
            yield f"{board.uid} / {panel.title}: has no columns {sorted(unknown)}"


def _fault(grafana: Grafana, query: Query, has_data: bool, exclusions: list[MayBeEmpty]) -> str:
    """Return what is wrong with an answer; nothing if it is as it should be."""
    lacking = [one.lacking for one in exclusions if not grafana.ask(query.asking(one.lacking))]
    if lacking and has_data:
        return f"finds data, though there is no {lacking[0]}: the exclusion is needless"
    if not lacking and not has_data:
        return f"finds no data: {query.text}"
    return ""


def _is_for(exclusion: MayBeEmpty, board: Dashboard, query: Query) -> bool:
    return any(
        (one.dashboard, one.title) == (board.uid, query.place)
        and (not one.ref_ids or query.ref_id in one.ref_ids)
        for one in exclusion.places
    )


def _places(board: Dashboard) -> Iterator[tuple[str, str]]:
    """Yield the title of every place, alone and with each of its queries."""
    for panel in board.panels:
        yield from (
            (panel.title, ref_id) for ref_id in ("", *(one.ref_id for one in panel.targets))
        )
    yield from ((f"variable {one.name}", "") for one in board.variables)
    yield from ((f"annotation {one.name}", "") for one in board.annotations)
