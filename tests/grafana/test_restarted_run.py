"""Dashboards leave out the discarded steps of a restarted run."""

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pytest

from grafana.boards.run.queries import recorded_by_ranks
from mlbench.contract import names
from mlbench_master.reading.promql import PrometheusClient
from tests.conftest import PrometheusServer
from tests.support.panels import Grafana, View
from tests.support.rows import TimeSeries, level, series, write

# Values by the second of their recording. Step 4 and its evaluation are discarded at second 60.
_RECORDED: dict[str, dict[int, float]] = {
    names.STEP: {4: 1, 8: 2, 12: 3, 16: 4, 80: 3, 84: 4},
    names.RESTORED_STEP: {60: 2},
    names.TRAIN_SECONDS: {8: 1, 16: 2, 84: 2.5},
    "train_loss": {4: 9, 8: 8, 12: 7, 16: 6, 80: 7.5, 84: 6.5},
    "val_loss": {8: 5, 16: 3, 84: 4.5},
}


@dataclass(frozen=True)
class Restarted:
    """A run that was restarted, in a real Prometheus."""

    prometheus: PrometheusClient
    run_id: str
    start: int

    def at(self, second: int, place: str, **chosen: str) -> Sequence[float]:
        """Return the values of a query of the runs page, PANEL / REF, at a second of the run."""
        view = View("a second", self.start - 5, self.start + second, self.run_id)
        board = "mlbench-compare" if chosen else "mlbench-runs"
        results = Grafana(self.prometheus, view, chosen).answers(board)[place]
        [values] = [result.values for result in results if result.labels["run_id"] == self.run_id]
        return [float(value) for value in values]


@pytest.fixture
def restarted(shared_prometheus: PrometheusServer) -> Iterator[Restarted]:
    run_id, start = f"{uuid.uuid4()}", int(time.time()) // 4 * 4 - 200
    write(shared_prometheus.url, _series(run_id, start))
    with closing(PrometheusClient(shared_prometheus.url)) as prometheus:
        yield Restarted(prometheus, run_id, start)


def _series(run_id: str, start: int) -> Iterator[TimeSeries]:
    for name, points in _RECORDED.items():
        # An offset keeps samples off the border of two steps, where Prometheus 2 counts them in
        # both.
        times = [start + at + 0.037 for at in points]
        labels = {"run_id": run_id, "metric": name, "rank": "0"}
        yield series(names.RUN_METRIC, times, [*points.values()], **labels)
    always = [start + second for second in range(0, 120, 2)]
    yield level(names.RUN_INFO, always, 1, run_id=run_id, name="again", workers="1", benchmark="b")
    yield level(names.RUN_STARTED, always, start, run_id=run_id)
    yield level(names.RUN_CREATED, always, start, run_id=run_id)
    yield level(names.RUN_WORKERS, always, 1, run_id=run_id)
    yield level(names.RUN_STATE, always, 1, run_id=run_id, state="STARTED")
    yield level(names.RUN_TARGET, always, 1, run_id=run_id, metric="val_loss", better="lower")


def test_curves_of_a_run_leave_out_discarded_steps(restarted: Restarted) -> None:
    def drawn(metric: str) -> dict[int, float]:
        query = recorded_by_ranks(metric).replace("$__interval", "4s")
        query = query.replace("$run_id", restarted.run_id).replace("$rank", ".*")
        start, end = 1000 * restarted.start + 37, 1000 * (restarted.start + 84) + 37
        [curve] = restarted.prometheus.query_range(query, start, end, 4000)
        return {
            int(at - restarted.start): float(value)
            for at, value in zip(curve.times, curve.values, strict=True)
        }

    assert drawn("train_loss") == {4: 9, 8: 8, 80: 7.5, 84: 6.5}
    assert drawn("val_loss") == {8: 5, 84: 4.5}


def test_compared_curves_leave_out_discarded_steps(restarted: Restarted) -> None:
    chosen = {"newest": "100", "group": "run"}
    over_time = "Metric over training time"
    assert restarted.at(100, f"{over_time} / value", **chosen) == [5, 4.5]
    assert restarted.at(100, f"{over_time} / clock", **chosen) == [1, 2.5]


@pytest.mark.parametrize(("second", "value"), [(10, 5), (20, 5), (70, 5), (90, 4.5)])
def test_newest_values_leave_out_discarded_steps(
    restarted: Restarted, second: int, value: float
) -> None:
    assert restarted.at(second, "All runs / result") == [value]


def test_progress_to_the_target_leaves_out_discarded_steps(restarted: Restarted) -> None:
    shares = restarted.at(100, "Progress to the target / A")
    assert set(shares) == {1 / 5, 1 / 4.5}
