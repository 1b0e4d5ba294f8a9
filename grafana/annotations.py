"""Annotations: the start, goal and end of runs on the time axis of graphs."""

from typing import Final

from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from grafana.queries import DATASOURCE, Query, by, called
from mlbench.names import RUN_AUTOPSY
from mlbench.palette import BLUE, GREEN, GREY, RED

# Without it Grafana looks once a minute, and misses the events of shorter runs. Up to version 11 it
# reads the annotation's step, from 12 on the interval of its query.
_STEP: Final = "2s"
_BUILT_IN: Final = AnnotationQuery(
    name="Annotations & Alerts",
    datasource=DataSourceRef(type_val="grafana", uid="-- Grafana --"),
    enable=True,
    hide=True,
    icon_color="rgba(0, 211, 255, 1)",
    type_val="dashboard",
    built_in=1,
)


def run_events(runs: str) -> list[AnnotationQuery]:
    """Mark start, goal and end of the runs that the label selector ``runs`` names.

    They always are: switches for them would take a row of the page. Those of all runs, where it is
    empty, would bury a graph: they have a switch, which is off at first.
    """
    if not runs:
        events = {"started": "started", "goal_reached": "reached its goal", "finished": "ended"}
        marks = (
            called("event", words, by("run_id", f"mlbench_run_{event}_timestamp_seconds"))
            for event, words in events.items()
        )
        every = _annotation(
            "Starts and ends of runs", f"({' or '.join(marks)}) * 1000", GREY, is_moment=True
        )
        every.enable = every.hide = False
        every.text_format = "run {{run_id}} {{event}}"
        return [_BUILT_IN, every]
    return [
        _BUILT_IN,
        _event("Run started", "started", runs, BLUE),
        _event("Goal reached", "goal_reached", runs, GREEN),
        _event("Run ended", "finished", runs, GREY),
        _autopsy(runs),
    ]


def firing(title: str, alert: str, runs: str) -> AnnotationQuery:
    """Mark when an alert fires for the active runs that the label selector ``runs`` names."""
    fires = by("run_id", f'ALERTS{{{runs},alertname="{alert}",alertstate="firing"}}')
    ended = by("run_id", f"mlbench_run_finished_timestamp_seconds{{{runs}}}")
    expr = f"{fires} unless on (run_id) {ended} < time()"
    return _annotation(title, expr, RED, is_moment=False)


def _event(title: str, event: str, runs: str, colour: str) -> AnnotationQuery:
    # The value is the time of the event, so all points of a series are one event.
    expr = by("run_id", f"mlbench_run_{event}_timestamp_seconds{{{runs}}}") + " * 1000"
    return _annotation(title, expr, colour, is_moment=True)


def _autopsy(runs: str) -> AnnotationQuery:
    """Mark when the ranks were asked why a run does not go on, with the verdict."""
    expr = by("run_id, verdict", f"{RUN_AUTOPSY}{{{runs}}}") + " * 1000"
    mark = _annotation("Why it does not go on", expr, RED, is_moment=True)
    mark.text_format = "{{verdict}}"
    return mark


def _annotation(title: str, expr: str, colour: str, *, is_moment: bool) -> AnnotationQuery:
    return AnnotationQuery(
        name=title,
        datasource=DATASOURCE,
        enable=True,
        hide=True,
        icon_color=colour,
        expr=expr,
        target=Query(expr, "{{run_id}}", interval=_STEP).target("Anno"),
        step=_STEP,
        title_format=title,
        text_format="run {{run_id}}",
        tag_keys="run_id",
        use_value_for_time=is_moment,
    )
