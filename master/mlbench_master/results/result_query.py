"""Results and comparisons of runs, computed from the database and the recorded series."""

from array import array
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mlbench.contract import names
from mlbench.contract.comparisons import Comparison
from mlbench.contract.results import Breakdown, Result
from mlbench.evaluation import comparison
from mlbench.evaluation.inputs import OWN_CRITERIA, Column, Columns, Criteria, RankRow
from mlbench.evaluation.result import (
    LINE_METRICS,
    RunContext,
    breakdown,
    evaluate,
    read_series,
)
from mlbench.evaluation.run_attributes import attributes_of
from mlbench.evaluation.timeline import Lineage
from mlbench_master.database.models import Rank, Run
from mlbench_master.reading.promql import PrometheusClient, answer_or_none, select
from mlbench_master.reading.selection import BEFORE_ALL_US, Selection
from mlbench_master.reading.series import SeriesReader
from mlbench_master.recording.blocks import texts_among
from mlbench_master.runs import benchmark_sets, diagnoses, lifecycle, run_clock


def result_of(reader: SeriesReader, run: Run, criteria: Criteria = OWN_CRITERIA) -> Result:
    """Return the result of a run so far.

    Raises:
        NotFoundError: the run was deleted meanwhile.
    """
    return _evaluate(reader, run, criteria)[0]


def breakdown_of(reader: SeriesReader, run: Run, bins: int) -> Breakdown | None:
    """Return the time breakdown of a run in at most ``bins`` bins; None before its start."""
    return breakdown(*inputs_of(reader, run), bins)


def inputs_of(
    reader: SeriesReader, run: Run, criteria: Criteria = OWN_CRITERIA
) -> tuple[RunContext, Columns]:
    """Return what the result of a run so far is computed from."""
    context = _context(reader.prometheus, run, criteria)
    return context, read_series(context, partial(_read, reader, run.id))


def line_of(reader: SeriesReader, run: Run) -> Lineage:
    """Return the lineage of a restarted run."""
    context = _context(reader.prometheus, run, OWN_CRITERIA)
    return context.line(_read(reader, run.id, (*LINE_METRICS, names.STEP), BEFORE_ALL_US + 1))


def comparison_of(reader: SeriesReader, runs: Sequence[Run], criteria: Criteria) -> Comparison:
    """Compare runs, at least one.

    Raises:
        NotFoundError: a run was deleted meanwhile.
    """
    results, facts = [], {}
    for run in runs:
        result, context = _evaluate(reader, run, criteria)
        results.append(result)
        facts[run.id] = attributes_of(context.run, context.latest, result)
    of_sets = {run.set_name: None for run in runs if run.set_name is not None}
    run_sets = [benchmark_sets.describe(benchmark_sets.find(name)) for name in of_sets]
    return comparison.compare(results, facts, run_sets, criteria.group_by)


def _evaluate(reader: SeriesReader, run: Run, criteria: Criteria) -> tuple[Result, RunContext]:
    try:
        context, series = inputs_of(reader, run, criteria)
        return evaluate(context, series), context
    finally:
        # A deleted run is not found, whatever error its missing series caused.
        lifecycle.find(run.id)


def _context(prometheus: PrometheusClient, run: Run, criteria: Criteria) -> RunContext:
    # All other figures are known without Prometheus.
    energy_joules = answer_or_none(lambda: energy_of(prometheus, run))
    row = replace(run.row, energy_joules=energy_joules)
    finished = [
        diagnoses.describe(diagnosis)
        for diagnosis in diagnoses.asked_of(run.id)
        if diagnoses.is_done(diagnosis)
    ]
    # Ranks of earlier attempts lack the large columns, because a thousand restarted ranks are many.
    small = Rank.select_without(Rank.machine, Rank.assignment)
    earlier = small.where(Rank.run == run.id, Rank.attempt != run.attempt)
    latest = Rank.select().where(Rank.run == run.id, Rank.attempt == run.attempt)
    rows = [
        RankRow.from_fields(row) for ranks in (earlier, latest) for row in ranks.dicts().execute()
    ]
    return RunContext(row, rows, run.finished_at or run_clock.now(run), criteria, finished)


def energy_of(prometheus: PrometheusClient, run: Run) -> float | None:
    """Return the energy of a run's GPUs in joules: the present value, or the one at its sealing."""
    is_known = run.archive is not None or run.energy_joules is not None or run.origin
    if is_known or run.started_at is None:
        return run.energy_joules
    ended_at = run.finished_at or run_clock.now(run)
    return used_joules(prometheus, run.pods, run.started_at, ended_at)


def used_joules(
    prometheus: PrometheusClient, pods: Sequence[str], began_at: float, ended_at: float
) -> float | None:
    """Return the energy that the GPUs of pods used between two times, in Unix seconds.

    None if it was not measured for all pods, because a part would look like the whole.
    """
    length_ms = round((ended_at - began_at) * 1000)
    if not pods or length_ms <= 0:
        return None
    # The exporter labels a GPU with a pod if no other pod uses the GPU.
    counters = select({"__name__": names.GPU_ENERGY}, {"pod": pods})
    promql = f"sum by (pod) (increase({counters}[{length_ms}ms]))"
    joules = [float(series.values[0]) for series in prometheus.query(promql, ended_at)]
    return sum(joules) if len(joules) == len(pods) else None


def _read(reader: SeriesReader, run_id: int, metrics: Collection[str], since_us: int) -> Columns:
    """Return the numbers of series as columns; texts are left out."""
    columns: dict[str, dict[str, Column]] = {}
    selection = Selection(since_us - 1, names=tuple(metrics))

    # A function, so that the samples of one metric are freed before the next are read.
    def add(metric: str) -> None:
        by_rank = record.read(metric, selection.after_us, selection.until_us)
        for rank, series in by_rank.items():
            times_us, values = series.times_us, series.values
            if texts := texts_among(series.notes):
                times_us, values = np.delete(times_us, texts), np.delete(values, texts)
            first = times_us.searchsorted(selection.after_us, "right")
            if first < len(times_us):
                # Python reads single numbers of its own arrays several times as fast.
                own = array("q", times_us[first:].tobytes()), array("d", values[first:].tobytes())
                columns.setdefault(metric, {})[rank] = Column(*own)

    with reader.record(lifecycle.find(run_id), selection) as record:
        for metric in selection.among(record.metrics):
            add(metric)
    return columns
