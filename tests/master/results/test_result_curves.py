"""Small curves: stored for ended runs, queried for active runs."""

import time
import uuid
from dataclasses import asdict, replace

import pytest
from peewee import Database

from mlbench.evaluation.summary_metrics import summary_metrics_of
from mlbench_master.database.connection import store
from mlbench_master.database.models import Run
from mlbench_master.reading.promql import PrometheusClient
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.result_curves import small_curves
from mlbench_master.results.result_query import result_of
from tests.support.recording import Recording
from tests.support.rows import line, make_ranks, make_run, record


@pytest.mark.both_databases
def test_curves_as_recorded(database: Database, recording: Recording, reader: SeriesReader) -> None:
    metric = f"acc-{uuid.uuid4()}"
    target = {"metric": metric, "value": 500.0, "lower_is_better": False}
    start = round(time.time()) - 100.0
    ended, going, other = (
        make_run(1, state=state, started_at=start, finished_at=end, target=target)
        for state, end in (("FINISHED", start + 100), ("STARTED", None), ("STARTED", None))
    )
    for run in (ended, going):
        make_ranks(run, ["w-0"], assigned_at=start)
        lines = [line(start + s, train_seconds=s / 2, **{metric: s / 3}) for s in range(1, 100)]
        record(run, b"".join(lines))
    recording.run_all()
    figures = asdict(summary_metrics_of(result_of(reader, ended)))
    Run.update(figures=figures).where(Run.id == ended.id).execute()

    ids = [ended.id, going.id, other.id]
    stored, queried = small_curves(reader, ids)
    assert (stored.run_id, stored.metric) == (ended.id, metric)
    assert len(stored.seconds) == len(stored.values) == 50
    assert (stored.seconds[-1], stored.values[-1]) == (99.0, 33.0)
    assert stored.values == pytest.approx([s / 3 for s in stored.seconds], rel=1e-4)
    assert stored.training_seconds == pytest.approx([s / 2 for s in stored.seconds], rel=1e-4)

    assert queried.run_id == going.id
    assert 50 < len(queried.seconds) <= 120
    assert queried.values == pytest.approx([int(s) / 3 for s in queried.seconds], abs=0.34)
    assert queried.training_seconds == pytest.approx([int(s) / 2 for s in queried.seconds], abs=0.5)

    away = replace(reader, prometheus=PrometheusClient("http://127.0.0.1:9"))
    curves = small_curves(away, ids)
    assert [curve.run_id for curve in curves] == [ended.id, going.id]
    assert curves[1] == replace(stored, run_id=going.id), "from its record"


def test_discarded_steps_are_not_in_the_curve(
    database: Database, recording: Recording, reader: SeriesReader
) -> None:
    start = round(time.time()) - 100.0
    target = {"metric": "acc", "value": 50.0, "lower_is_better": False}
    run = make_run(1, started_at=start, target=target)
    make_ranks(run, ["w-0"], assigned_at=start)
    record(run, b"".join(line(start + s, acc=s, step=s) for s in range(1, 10)))
    store(run, attempt=2)
    make_ranks(run, ["w-0"], assigned_at=start + 20)
    again = [line(start + 30, restored_step=4), *(line(start + s, acc=s, step=5) for s in (31, 32))]
    record(run, b"".join(again))
    recording.run_all()
    [curve] = small_curves(reader, [run.id])
    assert curve.values == (1, 2, 3, 4, 31, 32)
    assert curve.seconds == curve.values
