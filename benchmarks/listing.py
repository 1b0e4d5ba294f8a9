"""The list of 10,000 runs: time of its first page and of searches, in both databases."""

import random
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from peewee import chunked

from benchmarks import servers
from benchmarks.measure import Figure, alternate
from mlbench.evaluation.summary_metrics import SummaryMetrics
from mlbench_master.database.models import Rank, Run, open_database
from mlbench_master.runs.listing import RunQuery, count_runs, list_runs
from mlbench_master.runs.run_query import parse
from tests.support.postgres import serve

_RUNS, _TIMES, _PAGE, _BATCH = 10_000, 7, 100, 500
_EXCHANGES = ("ddp", "topk", "powersgd", "qsgd")
_QUERIES = {
    "the first page": RunQuery(limit=_PAGE),
    "  some words": RunQuery(query=parse("run-77 digits"), limit=_PAGE),
    "  a column": RunQuery(query=parse("workers>=4 state:finished"), limit=_PAGE),
    "  a setting and a figure": RunQuery(query=parse("exchange=topk accuracy>97"), limit=_PAGE),
    "  a machine": RunQuery(query=parse("machine:sixty"), limit=_PAGE),
    "  sorted by a figure, with columns": RunQuery(
        order="-accuracy", columns=("accuracy", "exchange", "duration"), limit=_PAGE
    ),
}


def measure(folder: Path) -> Iterator[Figure]:
    """Yield the milliseconds of a page's two requests, without HTTP."""
    yield from _measure("SQLite", servers.database_url(folder))
    with serve() as server, server.new_database() as name:
        yield from _measure("PostgreSQL", server.url(name))


def _measure(where: str, url: str) -> list[Figure]:
    database = open_database(url)
    with database.atomic():
        _store()

    def milliseconds(query: RunQuery) -> float:
        began = time.perf_counter()
        count_runs(query.query)
        assert list_runs(query)
        return 1000 * (time.perf_counter() - began)

    measures = {f"{where}: {name}": partial(milliseconds, q) for name, q in _QUERIES.items()}
    figures = alternate(_TIMES, "ms", measures)
    database.close()
    return figures


def _store() -> None:
    """Store runs with the settings, figures and ranks that runs of digits have."""
    numbers = random.Random(0)  # noqa: S311 - the same each time, no secret
    now = time.time()
    settings = {f"setting_{i}": i / 7 for i in range(25)}
    figures = asdict(SummaryMetrics(metric="val_global_Prec@1", samples_per_second=1e3, epochs=7))
    alike = {
        "job_id": "",
        "benchmark": "digits",
        "args": {},
        "attempt": 1,
        "sealed_at": now,
        "delivery": {"recorded": 0, "in_prometheus": 0, "record_only": 0},
    }
    runs: list[dict[str, Any]] = [
        {
            **alike,
            "id": 1 + number,
            "name": f"run-{number}",
            "num_workers": 1 + number % 8,
            "state": "FINISHED" if number % 10 else "FAILED",
            "created_at": now + number,
            "started_at": now + number,
            "finished_at": now + number + 60,
            "seed": number % 3,
            "settings": {"exchange": _EXCHANGES[number % 4]} | settings,
            "figures": figures | {"best_value": 90 + 9 * numbers.random()},
        }
        for number in range(_RUNS)
    ]
    common = {"attempt": 1, "rank": 0, "worker": "w-0", "assignment": {}, "assigned_at": now}
    packages = dict.fromkeys("abcdefgh", "1.2")
    ranks: list[dict[str, Any]] = [
        {"run": run["id"], "machine": {"cpu_model": f"Sixty {run['seed']}", "packages": packages}}
        | common
        for run in runs
    ]
    for batch in chunked(runs, _BATCH):
        Run.insert_many(batch).execute()
    for batch in chunked(ranks, _BATCH):
        Rank.insert_many(batch).execute()
