"""Results and lists as a person reads them: each figure, and what was not reached."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from mlbench.cli import report
from mlbench.cli.alerts import Alert
from mlbench.client import Delivery, Goal, Pod, Run
from mlbench.home import Connection
from mlbench.results import Result

_CONNECTION = Connection("http://127.0.0.1:8000", "secret", "http://127.0.0.1:9090")

_RESULT = Result(
    accuracy=97.456,
    train_seconds_to_goal=8.52,
    wall_seconds_to_goal=11.0,
    epochs=12,
    samples_per_second=12345.6,
    phase_seconds={"forward": 6.0, "backward": 3.0},
    other_seconds=1.0,
)

_RUN = Run(
    id=7,
    name="first",
    state="FINISHED",
    reason="",
    benchmark="digits",
    args={},
    num_workers=2,
    num_cpus=None,
    attempt=1,
    created_at="2018-08-03T09:21:29.347000Z",
    started_at="2018-08-03T09:21:30.000000Z",
    finished_at="2018-08-03T09:22:30.000000Z",
    goal=Goal("val_global_Prec@1", 97.0, lower_is_better=False),
    delivery=Delivery(recorded=12345, in_prometheus=12344, kept=1),
    ranks=(),
    fields={},
)


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is printed, 80 columns wide."""
    return print_on(monkeypatch, columns=80)


def print_on(monkeypatch: pytest.MonkeyPatch, columns: int) -> io.StringIO:
    paper = io.StringIO()
    monkeypatch.setattr(report, "out", Console(file=paper, width=columns, markup=False))
    return paper


def shown(paper: io.StringIO) -> list[str]:
    return [" ".join(line.split()) for line in paper.getvalue().splitlines()]


def test_a_result_has_every_figure(paper: io.StringIO) -> None:
    report.show_result(_RUN, _RESULT, _CONNECTION)
    assert shown(paper)[:-3] == [
        "run 7 (first): FINISHED",
        "goal val_global_Prec@1 97",
        "time to accuracy 8.5 s of training, 11.0 s since the start",
        "accuracy 97.46",
        "epochs 12",
        "throughput 12,346 samples/s",
        "delivery recorded 12,345, in Prometheus 12,344, kept 1",
        "where the time went",
        "phase seconds share",
        "forward 6.00 60.0% " + "█" * 18,
        "backward 3.00 30.0% " + "█" * 9,
        "other 1.00 10.0% " + "█" * 3,
    ]


def test_the_settings_are_one_line_that_ends_with_the_terminal(paper: io.StringIO) -> None:
    settings: dict[str, str | float | bool | None] = {
        "device": "cpu",
        "rate": 0.1,
        "compile": False,
        "folder": None,
        "text": "a\nb",
    }
    report.show_result(replace(_RUN, settings=settings), _RESULT, _CONNECTION)
    assert shown(paper)[1] == ("settings device=cpu rate=0.1 compile=false folder=null text=a b")
    assert shown(paper)[2] == "goal val_global_Prec@1 97"
    long = {f"setting_{i}": i for i in range(100)}
    report.show_result(replace(_RUN, settings=long), _RESULT, _CONNECTION)
    [line] = [line for line in shown(paper) if "setting_0=0" in line]
    assert line.endswith("…")


def test_the_links_lead_to_the_run_and_are_not_wrapped(paper: io.StringIO) -> None:
    report.show_result(_RUN, _RESULT, _CONNECTION)
    api, graph, promql = shown(paper)[-3:]
    assert api == "API http://mlbench:secret@127.0.0.1:8000/api/runs/7/"
    assert graph.startswith("Prometheus http://127.0.0.1:9090/graph?")
    assert "=mlbench_run_metric%7Brun_id%3D%227%22%2Cmetric%3D%22train_loss%22%7D&" in graph
    # From 09:21:30 to the first whole minute after the end at 09:22:30.
    assert graph.endswith("&g0.range_input=90s&g0.end_input=2018-08-03%2009%3A23")
    assert promql == 'PromQL mlbench_run_metric{run_id="7",metric="train_loss"}'


def test_a_grafana_shows_the_run_until_its_last_figures_are_there(paper: io.StringIO) -> None:
    connection = replace(_CONNECTION, grafana_url="http://127.0.0.1:3000")
    report.show_result(_RUN, _RESULT, connection)
    board = "http://127.0.0.1:3000/d/mlbench-run?var-run_id=7&from=1533288090000&to=1533288180000"
    assert f"Grafana {board}" in shown(paper)


def test_a_goal_that_was_not_reached_is_told(paper: io.StringIO) -> None:
    missed = replace(_RESULT, train_seconds_to_goal=None, wall_seconds_to_goal=None)
    report.show_result(_RUN, missed, _CONNECTION)
    assert "time to accuracy not reached" in shown(paper)


def test_what_there_is_nothing_of_is_left_out(paper: io.StringIO) -> None:
    nothing = Result(None, None, None, None, None, phase_seconds={}, other_seconds=0.0)
    run = replace(_RUN, state="FAILED", reason="rank 1 [is] lost\nbye", goal=None, delivery=None)
    report.show_result(run, nothing, _CONNECTION)
    assert shown(paper)[:-3] == ["run 7 (first): FAILED", "rank 1 [is] lost", "bye"]


def test_a_narrow_terminal_does_not_cut_the_names_of_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paper = print_on(monkeypatch, columns=60)
    name = "a-run-with-a-name-of-thirty-two-x"
    report.show_runs([replace(_RUN, name=name)], [])
    assert name in paper.getvalue()


def test_before_the_first_run_the_list_says_how_to_start_one(paper: io.StringIO) -> None:
    report.show_runs([], [Pod("w-0", "{}", "Running", None, run_id=7)])
    assert shown(paper)[0] == "no runs yet; `mlbench run digits` starts one"
    assert shown(paper)[-1] == "w-0 Running 7 -"


def test_json_has_no_figure_that_json_cannot_spell() -> None:
    diverged = replace(_RESULT, accuracy=float("nan"), samples_per_second=float("inf"))
    fields = report.result_fields(diverged)
    assert (fields["accuracy"], fields["samples_per_second"]) == (None, None)
    assert fields["phase_seconds"] == {"forward": 6.0, "backward": 3.0}
    assert json.dumps(fields, allow_nan=False)


def test_alerts_say_what_is_wrong_and_where_to_read_on(paper: io.StringIO) -> None:
    report.show_alerts([])
    assert paper.getvalue() == ""
    report.show_alerts([Alert("Stalled", "critical", "Run 7 stands still.", "docs/x.md", 7)])
    assert shown(paper) == ["", "critical Stalled (see docs/x.md)", "Run 7 stands still."]
