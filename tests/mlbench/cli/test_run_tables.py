"""Results and lists on a terminal: every figure, and targets that were not reached."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from mlbench.cli import common, run_tables
from mlbench.contract.records import (
    Added,
    Delivery,
    Interference,
    NotRecorded,
    Origin,
    Pod,
    Run,
    Target,
)
from mlbench.contract.results import (
    AccuracyAfterTime,
    Cost,
    Goodput,
    RankInterference,
    Result,
    TimeToTarget,
)
from mlbench.local.home import StackConnection
from tests.support.results import make_aimless, make_result, make_run
from tests.support.rows import QUIET

_CONNECTION = StackConnection("http://127.0.0.1:8000", "secret", "http://127.0.0.1:9090")

_TARGET = Target("val_global_Prec@1", 97.0)
_RESULT = replace(
    make_result(7, 2),
    time_to_target=TimeToTarget(8.52, 11.0),
    accuracy_after_time=AccuracyAfterTime(7200.0, 97.456, 9.0, "training"),
    last_value=97.456,
    best_value=98.1,
    samples_per_second=12345.6,
    phases={"forward": 6.0, "backward": 3.0, "other": 1.0, "evaluation": 2.0},
    communication_share=0.25,
    bytes_sent_per_step=1232296.0,
    cost=Cost(24.0, 22.0, None, None, None),
    energy_joules=1234.5,
    goodput=Goodput(0.75, {"start": 3.0, "compute": 15.0, "lost": 2.0}, ()),
)
_METRICS = ("epoch", "train_loss", "val_global_loss")
_DELIVERY = Delivery(recorded=12345, in_prometheus=12344, record_only=1)
_RUN = make_run(benchmark="digits", target=_TARGET, delivery=_DELIVERY)


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Output of the console, 80 columns wide."""
    paper = io.StringIO()
    terminal = Console(file=paper, width=80, markup=False, force_terminal=True, color_system=None)
    for module in (run_tables, common):
        monkeypatch.setattr(module, "out", terminal)
    return paper


def shown(paper: io.StringIO) -> list[str]:
    return [" ".join(line.split()) for line in paper.getvalue().splitlines()]


def show(run: Run = _RUN, result: Result | None = _RESULT, *metrics: str, **more: Any) -> None:
    """Print a result; by default, the loss of run 7 is recorded at the local stack."""
    connection: StackConnection = replace(_CONNECTION, **more)
    run_tables.show_result(run, result, connection, metrics or _METRICS)


def promql(metric: str) -> str:
    return f'PromQL last_over_time(mlbench_run_metric{{run_id="7",metric="{metric}"}}[1y])'


def test_a_result_has_every_figure(paper: io.StringIO) -> None:
    show()
    assert shown(paper)[:-4] == [
        "run 7 (first): FINISHED",
        "Division closed",
        "Target Validation accuracy ≥ 97 %",
        "Time to target (training) 8.52 s",
        "Time to target (wall clock) 11 s",
        "Last value 97.46, best 98.10",
        "Accuracy after time 97.46 after 2 h 00 min of training",
        "Epochs 12",
        "Throughput 12,346 samples/s",
        "Communication 25.0 % of training time, 1,232,296 B per step",
        "Cost 24.00 worker-seconds, 22.00 until the target",
        "Goodput 75.0 % of worker time advanced the final model",
        "Energy 1,234 J",
        "Missing samples 0 of 12,345 (12,344 in Prometheus, 1 record-only)",
        "Time breakdown",
        "worker-seconds share",
        "pod startup 3.00 15.0 % " + "█" * 4,
        "compute 15.00 75.0 % " + "█" * 22,
        "lost 2.00 10.0 % " + "█" * 3,
    ]


_AT = "2026-03-01T09:21:29.347960Z"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"not_recorded": NotRecorded("3 malformed lines", 3)}, "Not recorded 3 malformed lines"),
        ({"added": Added(3, _AT, _AT, 0)}, "Added 3 samples outside of the result"),
        (
            {"added": Added(3, _AT, _AT, 2)},
            "Added 3 samples outside of the result, 2 from lost ranks",
        ),
    ],
)
def test_missing_parts_are_named(paper: io.StringIO, fields: dict[str, Any], line: str) -> None:
    show(replace(_RUN, **fields))
    assert line in shown(paper)


def test_a_result_shows_its_cpu_contention(paper: io.StringIO) -> None:
    marked = "rank 0 had CPU contention for 41 % of the time; others used 0.9 of 1 core"
    show(_RUN, replace(_RESULT, disturbed=(marked,)))
    assert f"CPU contention: {marked}" in " ".join(shown(paper))
    quiet = "rank 1 had CPU contention for 2 % of the time"
    measured = Interference(**QUIET)
    first = RankInterference(0, 1, False, 0.01, None, "rank 0", measured)
    second = replace(first, rank=1, contention_share=0.02, text=quiet)
    show(_RUN, replace(_RESULT, interferences=(first, second)))
    assert f"CPU contention {quiet}" in shown(paper)


def test_the_settings_are_one_line_cut_at_the_terminal_width(paper: io.StringIO) -> None:
    show(replace(_RUN, settings={"rate": 0.1, "compile": False, "folder": None, "text": "a\nb"}))
    assert shown(paper)[2] == "Settings rate=0.1 compile=false folder=null text=a b"
    assert shown(paper)[3] == "Target Validation accuracy ≥ 97 %"
    exchange: Any = {"exchange": "ddp", "compression": "none", "bits": 4, "epochs": 3}
    show(replace(_RUN, settings=exchange))
    assert "Settings exchange=ddp compression=none epochs=3" in shown(paper)
    show(replace(_RUN, settings={f"setting_{i}": i for i in range(100)}))
    [line] = [line for line in shown(paper) if "setting_0=0" in line]
    assert line.endswith("…")


def test_the_links_lead_to_the_run_and_are_not_wrapped(paper: io.StringIO) -> None:
    show(grafana_url="http://127.0.0.1:3000")
    api, graph, board, query = shown(paper)[-4:]
    assert api == "API http://127.0.0.1:8000/api/runs/7/"
    # The interval ends when the last samples have been scraped.
    place = "http://127.0.0.1:3000/d/mlbench-run?var-run_id=7"
    assert board == f"Grafana {place}&from=1533288090000&to=1533288180000"
    assert graph.startswith("Prometheus http://127.0.0.1:9090/graph?")
    assert "=mlbench_run_metric%7Brun_id%3D%227%22%2Cmetric%3D%22train_loss%22%7D&" in graph
    # From 09:21:30 to 09:23, the first full minute after the end at 09:22:30.
    assert graph.endswith("&g0.range_input=90s&g0.end_input=2018-08-03%2009%3A23")
    assert query == promql("train_loss")


def test_the_query_is_of_the_target_or_another_recorded_metric(paper: io.StringIO) -> None:
    target = Target('val "loss"', 0.5, lower_is_better=True)
    own = replace(_RUN, benchmark="", target=target)
    show(own, _RESULT, *_METRICS, target.metric)
    *_, graph, query = shown(paper)
    assert query == promql(r"val \"loss\"")
    assert "metric%3D%22val%20%5C%22loss%5C%22%22%7D&" in graph
    for metrics, metric in ((("epoch", "train/loss"), "train/loss"), (("epoch", "step"), "epoch")):
        show(own, _RESULT, *metrics)
        assert shown(paper)[-1] == promql(metric)
    imported = replace(own, origin=Origin("there", 3, own.created_at))
    for run, recorded in ((own, ()), (imported, _METRICS)):
        run_tables.show_result(run, _RESULT, _CONNECTION, recorded)
        assert shown(paper)[-1] == "API http://127.0.0.1:8000/api/runs/7/"


def test_a_missed_target_is_shown(paper: io.StringIO) -> None:
    late = AccuracyAfterTime(60.0, None, None, "wall")
    missed = replace(_RESULT, time_to_target=None, accuracy_after_time=late)
    show(_RUN, missed)
    assert "Time to target (training) not reached" in shown(paper)
    assert "Accuracy after time" not in paper.getvalue()


def test_missing_figures_are_left_out(paper: io.StringIO) -> None:
    nothing = replace(make_aimless(7), epochs=None, samples_per_second=None, phases={})
    nothing = replace(nothing, communication_share=None, bytes_sent_per_step=None, cost=None)
    reason = "rank 1 [is] lost\nbye"
    show(replace(_RUN, state="FAILED", reason=reason, target=None, delivery=None), nothing)
    first, *rest = shown(paper)[:-4]
    assert (first, rest) == ("run 7 (first): FAILED", [*reason.splitlines(), "Division open"])


def test_the_token_of_a_remote_master_is_not_shown(paper: io.StringIO) -> None:
    far = StackConnection("https://example.com/bench", "secret", None, "http://g:2", elsewhere=True)
    run_tables.show_result(_RUN, _RESULT, far, _METRICS)
    assert shown(paper)[-4:] == [
        "Web page https://example.com/bench/runs/7",
        "API https://example.com/bench/api/runs/7/",
        "Grafana http://g:2/d/mlbench-run?var-run_id=7&from=1533288090000&to=1533288180000",
        promql("train_loss"),
    ]


def test_the_list_shows_the_reason_for_waiting_and_how_to_start_a_run(paper: io.StringIO) -> None:
    run_tables.show_runs([], [Pod("w-0", "{}", "Running", "", run_id=7, cpus=(0, 1, 2, 5))], of=0)
    assert shown(paper)[0] == "no runs yet; `mlbench run digits` starts one"
    assert shown(paper)[-1] == "w-0 Running 7 - 0-2,5 -"
    run = replace(_RUN, state="INITIALIZED", waiting="the cluster has room for 3 of 4 workers")
    run_tables.show_runs([run], [], of=2000)
    show(run, None)
    assert "run 7 is waiting: the cluster has room for 3 of 4 workers" in shown(paper)
    assert "waiting: the cluster has room for 3 of 4 workers" in shown(paper)
    assert "the newest 1 of 2,000 runs; --limit shows more" in shown(paper)


def test_a_run_shows_its_launcher(paper: io.StringIO) -> None:
    run = replace(_RUN, launcher="slurm")
    run_tables.show_runs([run, replace(_RUN, id=8)], [], of=2)
    show(run, None)
    heading, first, second, *_ = shown(paper)
    assert heading.endswith(" created from")
    assert (first.endswith(" slurm"), second.endswith(" slurm")) == (True, False)
    assert "started by slurm" in shown(paper)
