"""The master, as a contender."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.load import post_json, send
from benchmarks.post_rate import CREATED, single_posts, text
from benchmarks.read_rate import count_json, reading, store_long_run
from benchmarks.rivals.contender import Contender, Kind
from benchmarks.runs import store_run
from benchmarks.servers import Master, database_url, running_master, running_prometheus
from mlbench_master.models import open_database

_REQUESTS, _STEPS, _METRICS = 20, 50, 20


@contextmanager
def running(folder: Path) -> Iterator[Contender]:
    """Run the master, with a run of 100,000 samples."""
    database = open_database(database_url(folder))
    with (
        running_prometheus(folder) as prometheus_url,
        running_master(folder, prometheus_url) as master,
    ):
        run = store_long_run()
        yield Contender(
            "ours",
            {
                Kind.SINGLE: single_posts(master),
                Kind.BATCH: _lists(master),
                Kind.READ: reading(master, run, "json"),
                Kind.READ_ZIP: reading(master, run, "zip"),
            },
        )
    database.close()


def _lists(master: Master) -> Callable[[], float]:
    numbers = itertools.count(1)

    def once() -> float:
        run_id = store_run(f"lists-{next(numbers)}").id
        start = datetime.now(UTC) - timedelta(milliseconds=_REQUESTS * _STEPS)
        requests = [
            post_json("/api/metrics/", _list(run_id, start, request), master.headers)
            for request in range(_REQUESTS)
        ]
        rate = send(master.port, [requests], CREATED)
        found = count_json(master.source.get(f"/api/metrics/{run_id}/?metric_type=run").body)
        assert found == _REQUESTS * _STEPS * _METRICS, found
        return rate * _STEPS * _METRICS

    return once


def _list(run_id: int, start: datetime, request: int) -> list[dict[str, object]]:
    steps = range(request * _STEPS, (request + 1) * _STEPS)
    return [
        {
            "run_id": run_id,
            "name": f"metric_{metric}",
            "date": text(start + timedelta(milliseconds=step)),
            "value": step / 7,
        }
        for step in steps
        for metric in range(_METRICS)
    ]
