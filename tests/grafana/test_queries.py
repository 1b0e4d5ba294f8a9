"""Every query of every dashboard finds data in a real Prometheus, for ended and active runs.

A single test runs all queries, because the stack and its runs take most of the time.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlbench_master.reading.promql import PrometheusError
from tests.grafana.empty import MAY_BE_EMPTY
from tests.grafana.runs import Used, used_stack
from tests.support.dashboards import Dashboard, Json, load_all, texts
from tests.support.documentation import read_questions
from tests.support.panels import Grafana, Query, View

# Alerts about contention are frequent on a busy machine. Other alerts have other labels.
_OF_SOME_ROWS = {"Firing alerts": {"run_id", "rank", "pod", "instance"}}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_query_finds_data(prometheus_binary: Path, tmp_path: Path) -> None:
    with used_stack(prometheus_binary, tmp_path / "stack") as used:
        faults = [fault for board in load_all() for fault in _faults(board, used)]
        faults += _unanswered(used)
        figures = [_figures(used, view) for view in (used.finished, used.day)]
        listed, drawn = _listed(used), _drawn_in_a_day(used)
    assert not faults, "\n" + "\n".join(faults)
    assert used.day.run_id in drawn, "the graph of all runs lacks the short run"
    result = used.result
    expected = pytest.approx(
        {
            "Progress / A": result.wall_seconds,
            "Progress / B": result.epochs,
            "Target / B": result.best_value,
            "Samples/s / A": result.samples_per_second,
            "Samples/s / B": result.contention_share,
            "Progress / D": result.communication_share,
            **{
                f"rank {rank.rank} {phase}": seconds / sum(rank.phases.values())
                for rank in result.ranks
                for phase, seconds in rank.phases.items()
            },
        },
        rel=0.01,
    )
    assert figures == [expected, expected]
    assert result.time_to_target
    assert listed == {
        "Time to target (training) / value": result.time_to_target.training_seconds,
        "All runs / throughput": result.samples_per_second,
        "All runs / contention": result.contention_share,
        "All runs / result": result.best_value,
        "All runs / time_to_target": result.time_to_target.training_seconds,
    }


def test_exclusions_refer_to_existing_panels() -> None:
    known = set()
    for board in load_all():
        known |= {f"{board.uid} / {place}" for place, _ in board.queries}
        known |= {
            f"{board.uid} / {panel['title']} / {target['refId']}"
            for panel in board.panels
            for target in panel["targets"]
        }
    assert {place for places in MAY_BE_EMPTY.values() for place in places} <= known


def _unanswered(used: Used) -> list[str]:
    """Return the questions of docs/promql.md whose query finds nothing for the ended run."""
    # Both runs have two workers, and may have caused no alert.
    questions = read_questions(used.finished.run_id)
    view, prometheus = used.finished, used.prometheus
    times = (round(view.first * 1000), round(view.last * 1000), 1000)
    return [
        f"docs/promql.md: {question.title}"
        for question in questions
        for query in (question.query.replace('workers="1"', 'workers="2"'),)
        if "ALERTS" not in query
        and not (
            prometheus.query_range(query, *times) if question.is_graph else prometheus.query(query)
        )
    ]


def _figures(used: Used, view: View) -> dict[str, float]:
    """Return the values on the page of the ended run that its result has too."""
    answers = Grafana(used.prometheus, view).answers("mlbench-run")
    places = [f"Progress / {ref}" for ref in "ABD"] + [
        "Target / B",
        "Samples/s / A",
        "Samples/s / B",
    ]
    return {place: float(answers[place][0].values[-1]) for place in places} | {
        f"{result.labels['rank']} {result.labels['phase']}": float(result.values[-1])
        for result in answers["Time breakdown by rank / phases"]
    }


def _listed(used: Used) -> dict[str, float]:
    """Return the ended run's values on the pages of all runs and of compared runs."""
    grafana = Grafana(used.prometheus, used.finished)
    answers = grafana.answers("mlbench-runs") | grafana.answers("mlbench-compare")
    places = ["Time to target (training) / value"]
    places += [
        f"All runs / {ref}" for ref in ("throughput", "contention", "result", "time_to_target")
    ]
    return {place: float(answers[place][0].values[-1]) for place in places}


def _drawn_in_a_day(used: Used) -> set[str]:
    """Return the runs in the graph of all runs over a day."""
    answers = Grafana(used.prometheus, used.day).answers("mlbench-runs")
    drawn = [
        results
        for place, results in answers.items()
        if place.startswith("Progress to the target /")
    ]
    return {series.labels["run_id"] for results in drawn for series in results}


def _faults(board: Dashboard, used: Used) -> Iterator[str]:
    """Yield the faults in a dashboard's query results, each with its place."""
    labels: defaultdict[str, set[str]] = defaultdict(set)
    for view in (used.finished, used.active):
        grafana = Grafana(used.prometheus, view)
        for query in grafana.queries(board):
            place = f"{board.uid} / {query.place}"
            places = {place, f"{place} / {query.ref}"}
            reasons = [reason for reason, excused in MAY_BE_EMPTY.items() if places & set(excused)]
            try:
                series = grafana.ask(query) if query.options is None else []
                fault = _fault(grafana, query, bool(query.options or series), reasons)
            except (PrometheusError, KeyError) as error:
                series, fault = [], repr(error)
            labels[query.place].update(label for result in series for label in result.labels)
            if fault:
                yield f"{view.name}: {place}{query.ref and ' / '}{query.ref}: {fault}"
    for panel in board.panels:
        columns = labels[panel["title"]] | _OF_SOME_ROWS.get(panel["title"], set())
        # A table without data has rows with a single label.
        has_rows = panel["type"] == "table" and len(labels[panel["title"]]) > 1
        if has_rows and (unknown := _unknown_columns(panel, columns)):
            yield f"{board.uid} / {panel['title']}: has no columns {sorted(unknown)}"


def _fault(grafana: Grafana, query: Query, has_data: bool, reasons: list[str]) -> str:
    """Check the result of a query, and return the fault or ""."""
    absent = [reason for reason in reasons if not grafana.ask(query.asking(reason))]
    # Alerts about contention depend on how busy the machine is.
    if absent and has_data and "ALERTS" not in absent[0]:
        return f"finds data, though there is no {absent[0]}: the exclusion is needless"
    if not absent and not has_data:
        return f"finds no data: {query.expr}"
    return ""


def _unknown_columns(panel: Json, labels: set[str]) -> set[str]:
    """Return the columns that a table names but its queries do not provide."""
    organize = panel["transformations"][-1]["options"]
    columns = set(organize["indexByName"])
    titles = {organize["renameByName"].get(name, name) for name in columns}
    mentioned = {panel["options"]["sortBy"][0]["displayName"]} | {
        name for _, text in texts(panel) for name in re.findall(r"__data\.fields\.(\w+)", text)
    }
    values = {f"Value #{target['refId']}" for target in panel["targets"]}
    return (columns - labels - values) | (mentioned - titles - labels)
