"""Pages of all runs and of compared runs show the final results of ended runs."""

import time
import uuid
from collections.abc import Iterator, Sequence

import pytest

from mlbench.contract import names
from tests.conftest import PrometheusServer
from tests.support.dashboards import load_all
from tests.support.panels import View, ask_board
from tests.support.rows import TimeSeries, level, write

_SECONDS = 20
# Rows by number of workers: samples/s, seconds to the target, disturbed, CPU contention, threads.
_RUNS = {
    1: (100.0, 10.0, 0, 0.01, 1),
    2: (180.0, 6.0, 0, 0.02, 1),
    3: (225.0, 5.0, 1, 0.61, 1),
    4: (612.0, 3.0, 0, 0.02, 1),
    5: (400.0, 4.0, 0, 0.02, 2),
}
# Swept values of the runs that belong to a set.
_SWEPT = dict.fromkeys((4, 5), "exchange powersgd, rate 100mbit")
Rows = dict[str, dict[str, float]]


class Boards:
    """Values on the boards for these runs, by panel, query, and run or another label."""

    def __init__(self, url: str) -> None:
        self._url, self._ended, self._key = url, time.time() - 15, uuid.uuid4().hex[:8]
        for workers, figures in _RUNS.items():
            write(url, self._series(workers, *figures))

    def run_ids(self, *workers: int) -> list[str]:
        """Return the ids of the runs with these numbers of workers."""
        return [f"{self._key}-{number}" for number in workers]

    def ask(self, uid: str, label: str, *run_ids: str, **chosen: str) -> Rows:
        """Return the newest values of each query, named ``PANEL / REF``, by a label."""
        view = View("ended", self._ended - _SECONDS - 2, self._ended + 12, "|".join(run_ids))
        answers = ask_board(self._url, uid, view, chosen)
        return {
            place: {result.labels.get(label, ""): float(result.values[-1]) for result in results}
            for place, results in answers.items()
        }

    def _series(
        self,
        workers: int,
        rate: float,
        to_target: float,
        disturbed: int,
        contention: float,
        threads: int,
    ) -> Iterator[TimeSeries]:
        [run_id], started = self.run_ids(workers), self._ended - _SECONDS
        running = [started + second for second in range(_SECONDS + 1)]
        after = [self._ended + second for second in range(4, 12, 2)]

        def of_run(name: str, value: float, at: Sequence[float], /, **of: str) -> TimeSeries:
            return level(name, at, value, run_id=run_id, **of)

        info = {"name": "a-name-that-is-too-long-for-an-axis", "benchmark": self._key}
        always = [*running, *after]
        yield of_run(names.RUN_INFO, 1, always, workers=str(workers), **info)
        if workers in _SWEPT:
            yield of_run(names.RUN_SET_INFO, 1, always, set="grid", swept=_SWEPT[workers])
        yield of_run(names.RUN_WORKERS, workers, always)
        yield of_run(names.RUN_THREADS, threads, always)
        yield of_run(names.RUN_CREATED, started, always)
        yield of_run(names.RUN_STARTED, started, always)
        yield of_run(names.RUN_FINISHED, self._ended, after)
        yield of_run(names.RUN_STATE, 1, after, state="FINISHED")
        target = {"metric": names.VAL_ACCURACY, "better": "higher"}
        yield of_run(names.RUN_TARGET, 90 + workers, always, **target)
        yield of_run(names.RUN_METRIC, 10, running, metric=names.VAL_ACCURACY, rank="0")
        yield of_run(names.RUN_METRIC, to_target, running, metric=names.TRAIN_SECONDS, rank="0")
        yield of_run(names.RUN_BEST_VALUE, 98.6, after, metric=names.VAL_ACCURACY)
        yield of_run(names.RUN_SAMPLES_PER_SECOND, rate, after)
        yield of_run(names.RUN_TIME_TO_TARGET, to_target, after)
        yield of_run(names.RUN_DISTURBED, disturbed, after)
        yield of_run(names.RUN_CONTENTION_RATIO, contention, after, rank="1")
        yield of_run(names.RUN_PHASE_SECONDS, 3, after, phase="forward")
        yield of_run(names.RUN_PHASE_SECONDS, 1, after, phase="other")
        yield of_run(names.RUN_GOODPUT, 3, after, bucket="compute")
        yield of_run(names.RUN_GOODPUT, 1, after, bucket="lost")
        # Values computed while the run was active differ from the final results.
        yield of_run("run:mlbench_run_throughput:mean", 7, running)
        yield of_run("run_rank:mlbench_worker_cpu_contention:ratio1m", 0.04, running, rank="1")
        yield of_run(names.RUN_METRIC, 50, running, metric="forward_seconds", rank="0")


@pytest.fixture(scope="module")
def boards(shared_prometheus: PrometheusServer) -> Boards:
    return Boards(shared_prometheus.url)


def test_the_list_of_runs_shows_their_results(boards: Boards) -> None:
    answers = boards.ask("mlbench-runs", "run_id")
    refs = ("throughput", "time_to_target", "contention", "result")
    for run_id, (rate, to_target, _, contention, _) in zip(
        boards.run_ids(*_RUNS), _RUNS.values(), strict=True
    ):
        values = [answers[f"All runs / {ref}"][run_id] for ref in refs]
        assert values == [rate, to_target, contention, 98.6]


def test_compared_runs_show_their_results(boards: Boards) -> None:
    both = boards.run_ids(1, 2)
    table = boards.ask("mlbench-compare", "run_id", *both)
    bars = boards.ask("mlbench-compare", "run", *both)
    first, second = (
        f"{run_id} \u2068a-name-that-is-too-long-fo\N{HORIZONTAL ELLIPSIS}\u2069"
        f" \N{MULTIPLICATION SIGN}{workers}"
        for workers, run_id in enumerate(both, 1)
    )
    assert bars["Time to target (training) / value"] == {first: 10, second: 6}
    assert table["Compared runs / throughput"] == dict(zip(both, (100, 180), strict=True))
    assert table["Compared runs / time_to_target"] == dict(zip(both, (10, 6), strict=True))
    assert table["Compared runs / best"] == dict.fromkeys(both, 98.6)
    assert table["Compared runs / contention"] == dict(zip(both, (0.01, 0.02), strict=True))


def test_runs_of_a_sweep_are_named_by_their_swept_values(boards: Boards) -> None:
    [run_id] = boards.run_ids(4)
    bars = boards.ask("mlbench-compare", "run", run_id)["Time to target (training) / value"]
    [name] = bars
    assert name.startswith(f"{run_id} \u2068exchange powersgd")
    assert name.endswith(" \N{MULTIPLICATION SIGN}4")


def test_queries_are_of_readable_length() -> None:
    longest = {board.uid: max(len(expr) for _, expr in board.queries) for board in load_all()}
    assert max(longest.values()) <= 6000, longest


def test_each_target_has_its_value(boards: Boards) -> None:
    answers = boards.ask("mlbench-compare", "run", *boards.run_ids(1, 2))
    targets = answers["Metric over training time / target"]
    assert {name.split()[1]: value for name, value in targets.items()} == {"91": 91, "92": 92}
    ends = boards.ask("mlbench-compare", "run_id", *boards.run_ids(1, 2))
    assert ends["Metric over training time / ends"] == {"left": 0, "right": 10}
