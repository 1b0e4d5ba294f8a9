"""Annotations: what a run has done, and which of it Grafana does not know yet."""

from typing import Any

import pytest
from peewee import Database

from master.grafana.annotations import (
    RunEvent,
    events_of,
    missing,
    newest_runs,
    write_missing,
)
from master.grafana.client import Grafana, UnavailableError
from master.models import Run
from tests.master.grafana.rules import GrafanaState
from tests.master.making import make_run

_AT = 1_763_683_200.0
_AT_MS = 1_763_683_200_000
_GOAL = {"metric": "val_global_Prec@1", "value": 97, "lower_is_better": False}

pytestmark = pytest.mark.usefixtures("database")


def finished_run(**fields: Any) -> Run:
    return make_run(
        **{
            "name": "first",
            "benchmark": "digits",
            "state": "FINISHED",
            "started_at": _AT,
            "goal": _GOAL,
            "goal_reached_at": _AT + 12.3456,
            "goal_train_seconds": 9.87,
            "finished_at": _AT + 20,
            **fields,
        }
    )


def texts(run: Run) -> list[str]:
    return [event.text for event in events_of(run)]


def annotation(event: RunEvent, later_ms: int = 0) -> dict[str, object]:
    return {"tags": list(event.tags), "time": event.time_ms + later_ms, "text": "…"}


# --- What a run has done. ---


def test_a_run_tells_its_start_its_goal_and_its_end_at_their_own_times() -> None:
    run = finished_run()
    assert [(event.kind, event.time_ms) for event in events_of(run)] == [
        ("started", _AT_MS),
        ("goal_reached", _AT_MS + 12_346),
        ("finished", _AT_MS + 20_000),
    ]
    title = f"<b>first</b> (run {run.id}, digits)"
    assert texts(run) == [
        f"{title} started on 2 workers",
        f"{title} reached its goal: val_global_Prec@1 97 after 9.9 s of training",
        f"{title} finished after 20.0 s; goal reached: val_global_Prec@1 97 after 9.9 s of "
        "training",
    ]
    assert events_of(run)[1].tags == ("mlbench", f"run:{run.id}", "goal_reached")


def test_a_run_in_the_queue_has_done_nothing() -> None:
    assert events_of(make_run(state="INITIALIZED", attempt=0)) == []


def test_a_goal_that_was_missed_is_told() -> None:
    run = finished_run(goal_reached_at=None, goal_train_seconds=None, num_workers=1)
    first, last = texts(run)
    assert first.endswith("started on 1 worker")
    assert last.endswith("finished after 20.0 s; goal not reached")


def test_without_a_goal_nothing_is_said_of_one() -> None:
    run = finished_run(goal=None, goal_reached_at=None, benchmark="")
    assert texts(run)[-1] == f"<b>first</b> (run {run.id}, own command) finished after 20.0 s"


def test_a_failed_run_tells_why_in_its_first_line() -> None:
    run = finished_run(state="FAILED", reason="rank 1 exited with code 2\nTraceback …")
    assert texts(run)[-1].endswith("failed after 20.0 s: rank 1 exited with code 2")
    assert events_of(run)[-1].kind == "failed"


def test_a_run_that_was_stopped_before_it_started_tells_its_end_alone() -> None:
    run = finished_run(
        state="STOPPED", started_at=None, goal_reached_at=None, reason="stopped by the user"
    )
    [event] = events_of(run)
    assert event.kind == "stopped"
    assert event.text.endswith("stopped before it started: stopped by the user")


def test_what_users_wrote_is_no_html() -> None:
    run = finished_run(name="<script>alert(1)</script>", state="FAILED", reason="<img src=x>")
    for text in texts(run):
        assert "<script>" not in text
        assert "<img" not in text
        assert "&lt;script&gt;" in text


def test_a_long_reason_is_cut() -> None:
    assert len(texts(finished_run(state="FAILED", reason="x" * 10_000))[-1]) < 500


def test_the_newest_hundred_runs_are_followed(database: Database) -> None:
    template = finished_run()
    ids = [template.id]
    for _ in range(100):
        ids.append(finished_run().id)
    assert [run.id for run in newest_runs()] == sorted(ids, reverse=True)[:100]


# --- What Grafana does not know. ---


def test_events_without_their_annotation_are_missing() -> None:
    events = events_of(finished_run())
    assert missing(events, []) == events
    assert missing(events, [annotation(events[1])]) == [events[0], events[2]]
    assert missing(events, [annotation(event) for event in events]) == []


def test_other_runs_other_events_and_other_times_do_not_count() -> None:
    events = events_of(finished_run())
    other = annotation(events[0]) | {"tags": ["mlbench", "run:1", "started"]}
    # Of a master whose runs have the same numbers.
    long_ago = annotation(events[0], later_ms=-3_600_000)
    assert missing(events[:1], [other, long_ago, annotation(events[2])]) == events[:1]


def test_a_goal_whose_moment_moved_a_little_is_known() -> None:
    event = events_of(finished_run())[1]
    assert missing([event], [annotation(event, later_ms=400)]) == []


@pytest.mark.parametrize(
    "nonsense", [{}, {"tags": None, "time": None}, {"tags": "mlbench", "time": "now"}]
)
def test_what_is_no_annotation_does_not_count(nonsense: dict[str, object]) -> None:
    events = events_of(finished_run())
    assert missing(events, [nonsense]) == events


# --- Writing. ---


def test_what_is_missing_is_written_once(grafana: Grafana, state: GrafanaState) -> None:
    run = finished_run()
    assert write_missing(grafana, events_of(run)) == 3
    assert write_missing(grafana, events_of(run)) == 0
    assert [one["tags"][2] for one in state.annotations] == ["started", "goal_reached", "finished"]
    assert [one["time"] for one in state.annotations] == [e.time_ms for e in events_of(run)]


def test_a_page_for_runs_is_linked_where_there_is_one(
    grafana: Grafana, state: GrafanaState
) -> None:
    state.dashboards["mlbench-run"] = {
        "dashboard": {"uid": "mlbench-run"},
        "meta": {"url": "/grafana/d/mlbench-run/run"},
    }
    run = finished_run()
    write_missing(grafana, events_of(run))
    assert state.annotations[0]["text"].endswith(
        f'<br><a href="/grafana/d/mlbench-run/run?var-run_id={run.id}'
        f'&amp;from={_AT_MS}&amp;to={_AT_MS + 20_000}">details</a>'
    )


def test_annotations_that_others_made_do_not_crowd_ours_out(
    grafana: Grafana, state: GrafanaState
) -> None:
    run = finished_run()
    tags = ["mlbench", f"run:{run.id}"]
    for number in range(300):  # Grafana answers with 100 at most
        state.annotations.append({"tags": tags, "time": _AT_MS + 3_600_000 + number, "text": "x"})
    assert write_missing(grafana, events_of(run)) == 3
    assert write_missing(grafana, events_of(run)) == 0


def test_one_that_was_stored_without_an_answer_is_not_written_again(
    grafana: Grafana, state: GrafanaState
) -> None:
    events = events_of(finished_run())
    state.fault = "drop after storing"
    with pytest.raises(UnavailableError):
        write_missing(grafana, events)
    assert len(state.annotations) == 1
    assert write_missing(grafana, events) == 2
    assert [one["tags"][2] for one in state.annotations] == ["started", "goal_reached", "finished"]
