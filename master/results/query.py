"""Gathering what results and comparisons are computed from, and computing them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from master import runs
from master.models import Rank, Run
from master.reading.promql import PrometheusClient, select
from master.reading.selection import Selection
from master.reading.series import SeriesReader
from master.results import compare
from master.results.columns import Columns, to_columns
from master.results.division import rule_violations
from master.results.evaluate import TOTALS, RunContext, evaluate
from master.results.facts import Machine, facts_of
from mlbench import names
from mlbench.records import Goal
from mlbench.results import DEFAULT_AFTER_SECONDS, Comparison, Result


@dataclass(frozen=True)
class ResultQuery:
    """The criteria of a client; None for a run's own."""

    target: Goal | None = None
    """By default, each run's goal."""
    after_seconds: float | None = None
    """By default, each run's deadline, else two hours."""
    price: float | None = None
    """The price of a worker-second."""


def result_of(reader: SeriesReader, run: Run, query: ResultQuery) -> Result:
    """Return the result of a run so far.

    Raises:
        falcon.HTTPNotFound: the run was deleted meanwhile.
        PrometheusError: Prometheus gives no answer.
    """
    return _evaluate(reader, run, query, _machines(_ranks(run)))


def comparison_of(reader: SeriesReader, wanted: Sequence[Run], query: ResultQuery) -> Comparison:
    """Compare runs, at least one.

    Raises:
        falcon.HTTPNotFound: a run was deleted meanwhile.
        PrometheusError: Prometheus gives no answer.
    """
    results, facts = [], {}
    for run in wanted:
        ranks = _ranks(run)
        machines = _machines(ranks)
        result = _evaluate(reader, run, query, machines)
        results.append(result)
        cores = [rank.assignment.get("cpus", []) for rank in ranks]
        facts[run.id] = facts_of(run, result, machines, cores)
    return compare.compare(results, facts)


def _evaluate(
    reader: SeriesReader, run: Run, query: ResultQuery, machines: Sequence[Machine]
) -> Result:
    try:
        context = _context(reader.prometheus, run, query, machines)
        return evaluate(context, _series(reader, run, context.target))
    finally:
        # A deleted run is not found, whatever error its missing series caused.
        runs.find(run.id)


def _context(
    prometheus: PrometheusClient, run: Run, query: ResultQuery, machines: Sequence[Machine]
) -> RunContext:
    # Only these columns: a thousand restarted ranks are many rows.
    columns = Rank.select(Rank.worker, Rank.attempt, Rank.assigned_at, Rank.exited_at)
    ranks, ended_at = list(columns.where(Rank.run == run.id)), run.finished_at or time.time()
    energy = None
    if run.started_at is not None:
        pods = sorted({rank.worker for rank in ranks})
        energy = used_joules(prometheus, pods, run.started_at, ended_at)
    return RunContext(
        run=run,
        target=query.target or runs.goal_of(run),
        after_seconds=query.after_seconds or run.deadline_seconds or DEFAULT_AFTER_SECONDS,
        price=query.price,
        rule_violations=tuple(rule_violations(run, machines)),
        ended_at=ended_at,
        ranks=ranks,
        energy_joules=energy,
    )


def used_joules(
    prometheus: PrometheusClient, pods: Sequence[str], began_at: float, ended_at: float
) -> float | None:
    """Return the energy that the GPUs of pods used between two times, in Unix seconds.

    None if it was not measured for all of them, as a part would pass for the whole.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    length_ms = round((ended_at - began_at) * 1000)
    if not pods or length_ms <= 0:
        return None
    # The exporter's counters have the name of the pod whose processes have the GPU to themselves.
    counters = select({"__name__": names.GPU_ENERGY}, {"pod": pods})
    promql = f"sum by (pod) (increase({counters}[{length_ms}ms]))"
    used = [float(one.values[0]) for one in prometheus.query(promql, ended_at)]
    return sum(used) if len(used) == len(pods) else None


def _series(reader: SeriesReader, run: Run, target: Goal | None) -> Columns:
    if run.started_at is None:
        return {}
    metrics = {*TOTALS, *([target.metric] if target else ())}
    # Samples from before the start, which clients may post, are no merit of this run.
    since_us = int(run.started_at * 1000) * 1000
    return to_columns(reader.run(run.id, Selection(since_us - 1, names=tuple(sorted(metrics)))))


def _ranks(run: Run) -> list[Rank]:
    """Return the ranks of the latest attempt, with their machines and assignments."""
    columns = Rank.select(Rank.machine, Rank.assignment)
    latest = columns.where(Rank.run == run.id, Rank.attempt == run.attempt)
    return list(latest.order_by(Rank.rank))


def _machines(ranks: Sequence[Rank]) -> list[Machine]:
    """Return the machines of ranks, as far as they are known."""
    return [rank.machine for rank in ranks if rank.machine]
