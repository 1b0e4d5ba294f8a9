"""The page of a short run shows the run's result, both in the run's own time range and in a day."""

import time
import uuid
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from mlbench.contract import names
from mlbench_master.reading.promql import QueryResult
from tests.conftest import PrometheusServer
from tests.support import rows
from tests.support.dashboards import Json, load
from tests.support.panels import View, ask_board

_SECONDS = 30
_SHORT = "Too short for this range: open “Whole run”"
# Values in the result, by panel. Rates of the last minute were different.
_FIGURES = {
    "Samples/s / A": (names.RUN_SAMPLES_PER_SECOND, "", 469.0),
    "Samples/s / B": (names.RUN_CONTENTION_RATIO, "rank", 0.614),
    "Straggler ratio / A": (names.RUN_STRAGGLER, "rank", 1.81),
    "Ranks / ratio": (names.RUN_STRAGGLER, "rank", 1.81),
    "Ranks / contention": (names.RUN_CONTENTION_RATIO, "rank", 0.614),
    "Progress / B": (names.RUN_EPOCHS, "", 3.0),
    "Progress / D": (names.RUN_COMMUNICATION, "", 0.247),
    "Target / B": (names.RUN_BEST_VALUE, "metric", 98.6),
}
Answers = dict[str, list[QueryResult]]


@pytest.fixture
def views(shared_prometheus: PrometheusServer) -> dict[str, Answers]:
    """Query results of a short run's page, in the run's own time range and in a day."""
    run_id, ended = str(uuid.uuid4()), time.time() - 30
    rows.write(shared_prometheus.url, _series(run_id, ended - _SECONDS, ended))
    # In the day's range, the last point of a graph may be before a run that has just ended.
    times = {"own": (ended - _SECONDS - 2, ended + 10), "day": (ended + 20 - 86400, ended + 20)}
    return {
        name: ask_board(shared_prometheus.url, "mlbench-run", View(name, *ends, run_id), bare=True)
        for name, ends in times.items()
    }


def test_values_match_the_result_in_any_time_range(views: dict[str, Answers]) -> None:
    expected = {place: value for place, (_, _, value) in _FIGURES.items()}
    for name, answers in views.items():
        values = {
            place: [float(result.values[-1]) for result in answers[place]] for place in expected
        }
        assert values == {place: [value] for place, value in expected.items()}, name
        for place in ("Alerts / alerts", "Alerts over time / A"):
            assert [result.labels["alert"] for result in answers[place]] == ["CPUContention"], name
        assert set(answers["Alerts over time / A"][0].values) == {"1"}, "not a warning"


def test_no_rank_of_an_ended_run_is_shown_as_running(views: dict[str, Answers]) -> None:
    for name, answers in views.items():
        processes = {
            result.labels["rank"]: result.values[-1] for result in answers["Ranks / running"]
        }
        assert processes == {"0": "0", "1": "0"}, name


def test_a_graph_says_that_a_run_is_too_short_for_it(views: dict[str, Answers]) -> None:
    board = load("mlbench-run")
    for panel in board.panels:
        own, day = (_of_panel(panel, views[name]) for name in ("own", "day"))
        assert _SHORT not in {text for line in own for text in line.labels.values()}, panel["title"]
        if own and panel["type"] in ("timeseries", "trend"):
            # In a trend panel, the series with only a run id is the x axis (steps).
            curves = [line for line in day if line.labels.keys() != {"run_id"}]
            assert [_SHORT in line.labels.values() for line in curves] == [True], panel["title"]
        else:
            assert bool(day) >= bool(own), panel["title"]
    drawn = {panel["title"] for panel in board.panels if _of_panel(panel, views["own"])}
    assert {"Throughput", "Loss by time", "Loss by step", "CPU"} <= drawn


def _of_panel(panel: Json, answers: Answers) -> Sequence[QueryResult]:
    refs = [target["refId"] for target in panel["targets"]]
    return [result for ref in refs for result in answers[f"{panel['title']} / {ref}"]]


def _series(run_id: str, started: float, ended: float) -> Iterator[rows.TimeSeries]:
    """Return all series of a run with two ranks: recorded, scraped, and reported at its end."""
    running = [started + second for second in range(_SECONDS + 1)]
    after = [ended + second for second in range(4, 31, 2)]

    series = partial(rows.series, run_id=run_id)

    def level(name: str, value: float, /, **of: str) -> rows.TimeSeries:
        return rows.level(name, [*running, *after], value, run_id=run_id, **of)

    yield level(names.RUN_INFO, 1, name="short", benchmark="digits")
    yield level(names.RUN_CREATED, started - 1)
    yield level(names.RUN_STARTED, started)
    yield level(names.RUN_TARGET, 97, metric=names.VAL_ACCURACY, better="higher")
    yield series(names.RUN_FINISHED, after, [ended] * len(after))
    for name, label, value in set(_FIGURES.values()):
        of = {"rank": {"rank": "1"}, "metric": {"metric": names.VAL_ACCURACY}}.get(label, {})
        yield series(name, after, [value] * len(after), **of)
    alert = {"alertname": "MLBenchCPUContention", "alertstate": "firing", "severity": "warning"}
    yield series("ALERTS", running[10:20], [1.0] * 10, **alert)
    rising = [float(second + 1) for second in range(len(running))]
    for rank in ("0", "1"):
        # The last scrape was before the end.
        yield series(names.WORKER_RUNNING, running, [1.0] * len(running), rank=rank)
        for metric in (names.TRAIN_LOSS, names.STEP, names.EPOCH, names.VAL_ACCURACY):
            yield series(names.RUN_METRIC, running, rising, metric=metric, rank=rank)
        for phase in names.PHASES:
            metric = names.phase_metric(phase)
            yield series(names.RUN_METRIC, running, rising, metric=metric, rank=rank)
        for counter in (names.WORKER_SAMPLES, f"{names.WORKER_STEP_SECONDS}_sum"):
            yield series(counter, running, rising, rank=rank)
        for rule in (
            "run_rank:mlbench_worker_cpu_contention:ratio1m",
            "run_rank:mlbench_worker_straggler:ratio1m",
            "run_rank_pod:container_cpu_usage_seconds:irate1m",
        ):
            shares = [value / 1000 for value in rising]
            yield series(rule, running, shares, rank=rank, pod=f"worker-{rank}")
