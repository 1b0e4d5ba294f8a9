"""A dashboard's curves leave out what a restarted run has abandoned."""

import time
import uuid
from contextlib import closing

from grafana.boards.run.queries import recorded_by_ranks
from mlbench import names
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.recording.remote_write import RemoteWriter
from tests.conftest import PrometheusServer
from tests.support.rows import time_series


def test_curves_leave_out_what_came_after_the_checkpoint(
    shared_prometheus: PrometheusServer,
) -> None:
    run_id, start = str(uuid.uuid4()), int(time.time()) - 100
    recorded: dict[str, dict[int, float]] = {
        names.STEP: {1: 1, 2: 2, 3: 3, 4: 4, 20: 3, 21: 4},
        names.RESTORED_STEP: {15: 2},
        "train_loss": {1: 9, 2: 8, 3: 7, 4: 6, 20: 7.5, 21: 6.5},
        "val_loss": {2: 5, 4: 4, 21: 4.5},
    }
    with closing(RemoteWriter(shared_prometheus.url)) as writer:
        writer.send(
            [
                time_series(
                    {"__name__": names.RUN_METRIC, "run_id": run_id, "metric": name, "rank": "0"},
                    [(1000 * (start + at), value) for at, value in points.items()],
                )
                for name, points in recorded.items()
            ]
        )

    def drawn(metric: str) -> dict[int, float]:
        query = recorded_by_ranks(metric).replace("$__interval", "1s")
        query = query.replace("$run_id", run_id).replace("$rank", ".*")
        with closing(PrometheusClient(shared_prometheus.url)) as prometheus:
            [one] = prometheus.query_range(query, 1000 * start, 1000 * (start + 21), 1000)
        return {
            round(at - start): float(value) for at, value in zip(one.times, one.values, strict=True)
        }

    assert drawn("train_loss") == {1: 9, 2: 8, 20: 7.5, 21: 6.5}
    assert drawn("val_loss") == {2: 5, 21: 4.5}
