"""What runs did, as annotations: for Grafana to show on the time axis of every dashboard."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from master.grafana.client import Grafana
from master.models import Run

TAG = "mlbench"
RUN_BOARD_UID = "mlbench-run"

# Annotations are written for so many of the newest runs.
_RUNS_FOLLOWED = 100
# The moment of a goal moves back a little where another rank's values arrive later.
_SAME_EVENT_MS = 10_000
_REASON_CHARACTERS = 300
_ENDS = {"FINISHED": "finished", "FAILED": "failed", "STOPPED": "stopped"}


@dataclass(frozen=True)
class RunEvent:
    """Something that a run did. ``text`` is HTML, and says it without naming the run."""

    run_id: int
    kind: str
    """started, goal_reached, finished, failed or stopped."""
    time_ms: int
    text: str

    @property
    def run_tag(self) -> str:
        """Return the tag that all annotations of the run have."""
        return f"run:{self.run_id}"

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags of the event's annotation."""
        return (TAG, self.run_tag, self.kind)


def newest_runs() -> list[Run]:
    """Return the runs whose events are followed, from the database."""
    return list(Run.select().order_by(Run.id.desc()).limit(_RUNS_FOLLOWED))


def events_of(run: Run) -> list[RunEvent]:
    """Return what a run has done, in order of time."""
    found = []
    if run.started_at is not None:
        text = f"{_title(run)} started on {_count(run.num_workers, 'worker')}"
        found.append(_event(run, "started", run.started_at, text))
    if run.goal_reached_at is not None:
        text = f"{_title(run)} reached its goal: {_goal(run)}"
        found.append(_event(run, "goal_reached", run.goal_reached_at, text))
    if run.finished_at is not None and run.state in _ENDS:
        kind = _ENDS[run.state]
        text = f"{_title(run)} {kind}{_duration(run)}{_result(run)}"
        found.append(_event(run, kind, run.finished_at, text))
    return found


def missing(wanted: Iterable[RunEvent], found: Sequence[Mapping[str, Any]]) -> list[RunEvent]:
    """Return the events that have no annotation among those that Grafana has."""
    return [event for event in wanted if not any(_tells(one, event) for one in found)]


def write_missing(grafana: Grafana, events: Sequence[RunEvent]) -> int:
    """Add the annotations of a run's events that Grafana does not have; return how many.

    Args:
        grafana: where to.
        events: all that the run has done.

    Raises:
        UnavailableError: nothing there answers as Grafana does.
        RefusedError: Grafana does not allow it.
    """
    times = [event.time_ms for event in events]
    found = grafana.annotations(
        tags=(TAG, events[0].run_tag),
        from_ms=min(times) - _SAME_EVENT_MS,
        to_ms=max(times) + _SAME_EVENT_MS,
    )
    new = missing(events, found)
    link = _link(grafana, events) if new else ""
    for event in new:
        grafana.annotate(event.time_ms, event.tags, event.text + link)
    return len(new)


def _tells(annotation: Mapping[str, Any], event: RunEvent) -> bool:
    tags, time_ms = annotation.get("tags"), annotation.get("time")
    return (
        isinstance(tags, list)
        and isinstance(time_ms, int | float)
        and set(event.tags) <= set(tags)
        and abs(time_ms - event.time_ms) <= _SAME_EVENT_MS
    )


def _link(grafana: Grafana, events: Sequence[RunEvent]) -> str:
    """Return a link to the run's page in Grafana; nothing where there is no such page."""
    board = grafana.find_dashboard(RUN_BOARD_UID) or {}
    # A path, with the one under which Grafana is served: the browser knows the host.
    path = board.get("meta", {}).get("url")
    if not path:
        return ""
    begin, last = events[0], events[-1]
    end = last.time_ms if last.kind in _ENDS.values() else "now"
    query = f"var-run_id={begin.run_id}&from={begin.time_ms}&to={end}"
    return f'<br><a href="{escape(f"{path}?{query}")}">details</a>'


def _event(run: Run, kind: str, seconds: float, text: str) -> RunEvent:
    return RunEvent(run.id, kind, round(seconds * 1000), text)


def _title(run: Run) -> str:
    return f"<b>{escape(run.name)}</b> (run {run.id}, {escape(run.benchmark or 'own command')})"


def _goal(run: Run) -> str:
    what = f"{escape(run.goal['metric'])} {run.goal['value']:g}" if run.goal else "as stated"
    if run.goal_train_seconds is None:
        return what
    return f"{what} after {run.goal_train_seconds:.1f} s of training"


def _duration(run: Run) -> str:
    if run.started_at is None or run.finished_at is None:
        return " before it started"
    return f" after {run.finished_at - run.started_at:.1f} s"


def _result(run: Run) -> str:
    """Return how it ended: the goal of a run that finished, the reason of another."""
    if run.state != "FINISHED":
        why = run.reason.partition("\n")[0][:_REASON_CHARACTERS]
        return f": {escape(why)}" if why else ""
    if run.goal_reached_at is not None:
        return f"; goal reached: {_goal(run)}"
    return "; goal not reached" if run.goal else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
