"""Annotations: the start, target and end of runs on the time axis of graphs."""

from typing import Final

from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from grafana.queries import DATASOURCE, PanelQuery, by, called
from mlbench.contract.names import RUN_DIAGNOSIS
from mlbench.contract.palette import BLUE, GREEN, GREY, RED

# Grafana's default is once a minute, which misses the events of shorter runs. Versions up to 11
# read the annotation's step, later ones the interval of its query.
_STEP: Final = "2s"
# Events of a run by their name in metrics: title of the annotation, verb, and colour.
_EVENTS: Final = {
    "started": ("Run started", "started", BLUE),
    "target_reached": ("Target reached", "reached its target", GREEN),
    "finished": ("Run ended", "ended", GREY),
}
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
    """Mark start, target and end of the runs that match the label selector ``runs``.

    The marks have no switch, because switches would take a row of the page. If ``runs`` is empty,
    the marks of all runs would cover a graph, so they have a switch that is off by default.
    """
    if not runs:
        marks = (
            called("event", words, by("run_id", f"mlbench_run_{event}_timestamp_seconds"))
            for event, (_, words, _) in _EVENTS.items()
        )
        all_marks = _moments("Starts and ends of runs", f"({' or '.join(marks)})", GREY)
        all_marks.enable = all_marks.hide = False
        all_marks.text_format = "run {{run_id}} {{event}}"
        return [_BUILT_IN, all_marks]
    # Hang diagnoses, with their verdict.
    moments = by("run_id, verdict", f"{RUN_DIAGNOSIS}{{{runs}}}")
    diagnosis = _moments("Hang diagnosis", moments, RED)
    diagnosis.text_format = "{{verdict}}"
    events = (
        _moments(title, by("run_id", f"mlbench_run_{event}_timestamp_seconds{{{runs}}}"), colour)
        for event, (title, _, colour) in _EVENTS.items()
    )
    return [_BUILT_IN, *events, diagnosis]


def firing(title: str, alert: str, runs: str) -> AnnotationQuery:
    """Mark when an alert fires for active runs that match the label selector ``runs``."""
    fires = by("run_id", f'ALERTS{{{runs},alertname="{alert}",alertstate="firing"}}')
    ended = by("run_id", f"mlbench_run_finished_timestamp_seconds{{{runs}}}")
    expr = f"{fires} unless on (run_id) {ended} < time()"
    return _annotation(title, expr, RED, is_moment=False)


def _moments(title: str, expr: str, colour: str) -> AnnotationQuery:
    """Mark the times that are the values of series: all points of a series are one event."""
    return _annotation(title, f"{expr} * 1000", colour, is_moment=True)


def _annotation(title: str, expr: str, colour: str, *, is_moment: bool) -> AnnotationQuery:
    return AnnotationQuery(
        name=title,
        datasource=DATASOURCE,
        enable=True,
        hide=True,
        icon_color=colour,
        expr=expr,
        target=PanelQuery(expr, "{{run_id}}", interval=_STEP).target("Anno"),
        step=_STEP,
        title_format=title,
        text_format="run {{run_id}}",
        tag_keys="run_id",
        use_value_for_time=is_moment,
    )
