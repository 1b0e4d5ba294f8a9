"""The queries of ``docs/promql.md`` return data for runs that ended half an hour ago."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mlbench.contract import names
from mlbench.local.home import Home, StackConnection
from mlbench_master.reading.promql import PrometheusClient, QueryResult
from tests.conftest import PrometheusServer
from tests.support.documentation import PROMQL, Question, read_questions
from tests.support.rows import TimeSeries, level, write
from tests.support.rows import series as make_series

_README = Path(__file__).parents[2] / "README.md"
_SECONDS = 20
# Samples per second and seconds to the target, by run ID. The ID is the number of workers.
_RUNS = {1: (100.0, 10.0), 2: (180.0, 6.0), 4: (300.0, 4.0)}
_ASKED = "2"
# The label that distinguishes the series of a response, and the newest value of each series.
_EXPECTED = {
    "What was the last loss of each rank?": ("rank", {"0": 2.0, "1": 2.5}),
    "What are all recorded values, with their times?": ("rank", {"0": 2.0, "1": 2.5}),
    "What was the best validation accuracy?": ("", {"": 98.0}),
    "How long did each run train until its target, and on how many workers?": (
        "workers",
        {"1": 10.0, "2": 6.0, "4": 4.0},
    ),
    "What is the mean time to target by number of workers?": (
        "workers",
        {"1": 10.0, "2": 6.0, "4": 4.0},
    ),
    "What is the speed-up of more workers over one?": ("workers", {"1": 1.0, "2": 1.8, "4": 3.0}),
    "Which rank was slowest?": ("rank", {"1": 1.5}),
    "How many cores did each rank use?": ("rank", {"0": 0.5, "1": 0.75}),
    "How much memory did each rank need at most?": ("rank", {"0": 1e9, "1": 1.5e9}),
    "Where did the time of the workers go?": ("bucket", {"compute": 0.75, "lost": 0.25}),
    "Which alerts fired in a run, and for how many seconds?": ("alertname", {"MLBenchOne": 25.0}),
    "How did the loss of each rank develop?": ("rank", {"0": 2.0, "1": 2.5}),
    "How many samples per second did the run train?": ("", {"": 180.0}),
    "How long did a step take on each rank?": ("rank", {"0": 0.01, "1": 0.015}),
    "Which share of the training time was communication?": ("", {"": 0.125}),
}


@pytest.fixture
def ended(own_prometheus: PrometheusServer) -> Iterator[tuple[PrometheusClient, float]]:
    """A Prometheus server with finished runs, and the time when they ended."""
    ended_at = time.time() - 1800
    for workers in _RUNS:
        write(own_prometheus.url, _series(workers, ended_at))
    with closing(PrometheusClient(own_prometheus.url)) as prometheus:
        yield prometheus, ended_at


def test_every_query_returns_the_metrics_of_finished_runs(
    ended: tuple[PrometheusClient, float],
) -> None:
    answers = {question.title: _ask(*ended, question) for question in read_questions(_ASKED)}
    newest = {
        title: {
            series.labels.get(_EXPECTED[title][0], ""): float(series.values[-1])
            for series in answer
        }
        for title, answer in answers.items()
    }
    assert newest == {title: pytest.approx(values) for title, (_, values) in _EXPECTED.items()}
    everything = answers["What are all recorded values, with their times?"]
    assert [len(series.values) for series in everything] == [_SECONDS] * 2
    assert everything[0].times[-1] == pytest.approx(ended[1], abs=0.001)


def test_the_query_of_the_readme_returns_the_values_of_a_finished_run(
    ended: tuple[PrometheusClient, float],
) -> None:
    [query] = re.findall(r"^PromQL +(.+)$", _README.read_text(), re.MULTILINE)
    assert query == read_questions("1")[0].query.strip()
    assert [series.values for series in ended[0].query(query)] == [["2"]]
    plain = query.removeprefix("last_over_time(").removesuffix("[1y])")
    assert not ended[0].query(plain)


def test_the_commands_for_scripts_reach_prometheus(
    ended: tuple[PrometheusClient, float], own_prometheus: PrometheusServer, tmp_path: Path
) -> None:
    home = Home(tmp_path / ".local" / "share" / "mlbench")
    home.make()
    home.write_connection(StackConnection("http://127.0.0.1:8000", "secret", own_prometheus.url))
    block = re.search(r"^```\n(PROMETHEUS_URL=.*?)^```$", PROMQL, re.M | re.S)
    assert block
    environ = {**os.environ, "HOME": str(tmp_path)}
    command = ["bash", "-ec", block[1]]
    answer = subprocess.run(command, env=environ, check=True, capture_output=True).stdout
    [series] = json.loads(answer)["data"]["result"]
    assert series["value"][1] == "2"


def _ask(prometheus: PrometheusClient, ended_at: float, question: Question) -> list[QueryResult]:
    if not question.is_graph:
        return prometheus.query(question.query)
    last_ms = round(ended_at * 1000)
    return prometheus.query_range(question.query, last_ms - _SECONDS * 1000, last_ms, 1000)


def _series(workers: int, ended_at: float) -> Iterator[TimeSeries]:
    throughput, to_target = _RUNS[workers]
    during = [ended_at - second for second in reversed(range(_SECONDS))]
    after = [ended_at + second for second in range(4, 12, 2)]
    run_id = str(workers)

    def constant(name: str, value: float, /, **labels: str) -> TimeSeries:
        return level(name, during, value, run_id=run_id, **labels)

    # A master restarted on another port exports the same series twice.
    for instance, times in (("127.0.0.1:8000", during), ("127.0.0.1:8001", after)):
        info = {"name": f"run-{workers}", "benchmark": "digits", "workers": run_id}
        yield level(names.RUN_INFO, times, 1, run_id=run_id, instance=instance, **info)
    yield level(names.RUN_TIME_TO_TARGET, after, to_target, run_id=run_id)
    yield level(names.RUN_SAMPLES_PER_SECOND, after, throughput, run_id=run_id)
    for bucket, seconds in (("compute", 30.0), ("lost", 10.0)):
        yield level(names.RUN_GOODPUT, after, seconds, run_id=run_id, bucket=bucket)
    accuracies = [*range(50, 50 + _SECONDS - 2), 98, 97]
    metric = {"metric": names.VAL_ACCURACY, "rank": "0", "run_id": run_id}
    yield make_series(names.RUN_METRIC, during, accuracies, **metric)
    yield constant("run:mlbench_worker_samples:rate1m", throughput)
    yield constant("run:mlbench_worker_communication:share1m", 0.125)
    fired = during[:5]
    alert = {"alertname": "MLBenchOne", "alertstate": "firing", "rank": "1"}
    yield level("ALERTS", fired, 1, run_id=run_id, **alert)
    yield level("ALERTS", fired, 1, run_id=run_id, **alert | {"alertstate": "pending"})
    for rank in range(workers):
        more = 1 + rank / 2
        losses = [2 + rank / 2 + second for second in reversed(range(_SECONDS))]
        labels = {"rank": str(rank), "run_id": run_id}
        yield make_series(names.RUN_METRIC, during, losses, metric=names.TRAIN_LOSS, **labels)
        yield constant("run_rank:mlbench_worker_straggler:ratio1m", more, rank=str(rank))
        yield constant("run_rank:mlbench_worker_step_seconds:p50_1m", 0.01 * more, rank=str(rank))
        pod = {"rank": str(rank), "pod": f"w-{rank}"}
        cpu, memory = (
            "container_cpu_usage_seconds:irate1m",
            "container_memory_working_set_bytes:sum",
        )
        yield constant(f"run_rank_pod:{cpu}", 0.5 * more, **pod)
        yield constant(f"run_rank_pod:{memory}", 1e9 * more, **pod)
