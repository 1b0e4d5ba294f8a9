"""Small curves of many runs: stored ones for ended runs, and one query for active runs.

If Prometheus is away, the curves of active runs are computed from their record.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from math import isfinite

from mlbench.contract.names import RUN_METRIC, TRAIN_SECONDS
from mlbench.contract.records import RunCurve
from mlbench.evaluation.summary_metrics import summary_metrics_of
from mlbench_master.database.models import Run
from mlbench_master.reading.promql import PrometheusClient, answer_or_none, select
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results.result_query import result_of


def small_curves(reader: SeriesReader, ids: Collection[int]) -> list[RunCurve]:
    """Return the curves of runs that have one."""
    columns = (Run.id, Run.figures, Run.target, Run.started_at, Run.attempt)
    runs = list(Run.select(*columns).where(Run.id.in_(list(ids))))
    curves = [
        RunCurve(run.id, run.figures["metric"], *map(tuple, run.figures["curve"]))
        for run in runs
        if run.figures and any(run.figures.get("curve", ()))
    ]
    active = [run for run in runs if run.figures is None and run.target and run.started_at]
    # A result leaves out the steps that a restart discarded.
    from_results = [run.id for run in active if run.attempt > 1]
    first_attempts = [run for run in active if run.attempt == 1]
    queried = answer_or_none(lambda: [*_query(reader.prometheus, first_attempts)])
    if queried is None:
        from_results = [run.id for run in active]
    curves += queried or ()
    for run in Run.select().where(Run.id.in_(from_results)):
        figures = summary_metrics_of(result_of(reader, run))
        if any(figures.curve):
            curves.append(RunCurve(run.id, figures.metric, *figures.curve))
    return curves


def _query(prometheus: PrometheusClient, runs: Sequence[Run]) -> Iterator[RunCurve]:
    if not runs:
        return
    metrics = {run.target["metric"] for run in runs} | {TRAIN_SECONDS}
    labels = {"run_id": [str(run.id) for run in runs], "metric": sorted(metrics)}
    last_ms = round(time.time() * 1000)
    started = {run.id: run.started_at or 0.0 for run in runs}
    first_ms = round(min(started.values()) * 1000)
    step_ms = max(1000, (last_ms - first_ms) // 60)  # 60 points, at least a second apart
    promql = f"avg by (run_id, metric) ({select({'__name__': RUN_METRIC}, labels)})"
    series = prometheus.query_range(promql, first_ms, last_ms, step_ms)
    by_run = {(curve.labels["run_id"], curve.labels["metric"]): curve for curve in series}
    for run in runs:
        if curve := by_run.get((str(run.id), run.target["metric"])):
            pairs = zip(curve.times, map(float, curve.values), strict=True)
            clock = by_run.get((str(run.id), TRAIN_SECONDS))
            trained = dict(zip(clock.times, map(float, clock.values), strict=True)) if clock else {}
            points = [
                (at - started[run.id], value, trained.get(at))
                for at, value in pairs
                if isfinite(value)
            ]
            seconds, values, training = zip(*points, strict=True) if points else ((), (), ())
            yield RunCurve(run.id, run.target["metric"], seconds, values, training if clock else ())
