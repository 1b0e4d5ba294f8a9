"""Gathering what results and comparisons are computed from, and computing them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from master import run_time, runs, sets
from master.models import Rank, Run
from master.reading.promql import PrometheusClient, select
from master.reading.selection import NamedSeries, Selection
from master.reading.series import SeriesReader
from mlbench import names
from mlbench.evaluation import compare, mllog, original
from mlbench.evaluation.columns import Columns, to_columns
from mlbench.evaluation.division import rule_violations
from mlbench.evaluation.evaluate import TOTALS, RunContext, evaluate
from mlbench.evaluation.facts import Machine, facts_of
from mlbench.evaluation.ranks import last_totals_us
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
        NotFoundError: the run was deleted meanwhile.
        PrometheusError: Prometheus gives no answer.
    """
    return _evaluate(reader, run, query, machines_of(_ranks(run)))


def mllog_of(reader: SeriesReader, run: Run) -> Iterator[str]:
    """Yield a run in the lines of MLPerf's logging; see ``mllog``.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    machines = machines_of(_ranks(run))
    context = _context(reader.prometheus, run, ResultQuery(), machines)
    return mllog.write(context, machines, _series(reader, context))


def comparison_of(reader: SeriesReader, wanted: Sequence[Run], query: ResultQuery) -> Comparison:
    """Compare runs, at least one.

    Raises:
        NotFoundError: a run was deleted meanwhile.
        PrometheusError: Prometheus gives no answer.
    """
    results, facts = [], {}
    for run in wanted:
        ranks = _ranks(run)
        machines = machines_of(ranks)
        result = _evaluate(reader, run, query, machines)
        results.append(result)
        cores = [rank.assignment.get("cpus", []) for rank in ranks]
        facts[run.id] = facts_of(run, result, machines, cores)
    of_sets = {run.set_name: None for run in wanted if run.set_name is not None}
    found = [sets.describe(sets.find(name)) for name in of_sets]
    return compare.compare(results, facts, found)


def _evaluate(
    reader: SeriesReader, run: Run, query: ResultQuery, machines: Sequence[Machine]
) -> Result:
    try:
        context = _context(reader.prometheus, run, query, machines)
        return evaluate(context, _series(reader, context))
    finally:
        # A deleted run is not found, whatever error its missing series caused.
        runs.find(run.id)


def _context(
    prometheus: PrometheusClient, run: Run, query: ResultQuery, machines: Sequence[Machine]
) -> RunContext:
    # Only these columns: a thousand restarted ranks are many rows.
    times = (Rank.assigned_at, Rank.exited_at, Rank.disturbance, Rank.processes)
    clocks = (Rank.clock_ahead, Rank.dated_before, Rank.dated_ahead)
    columns = Rank.select(Rank.worker, Rank.attempt, Rank.rank, *times, *clocks)
    ranks = list(columns.where(Rank.run == run.id))
    return context_of(run, ranks, query, energy_of(prometheus, run), machines)


def context_of(
    run: Run,
    ranks: Sequence[Rank],
    query: ResultQuery,
    energy_joules: float | None,
    machines: Sequence[Machine],
) -> RunContext:
    """Return what the result of a run is computed from, besides its series. Pure.

    ``ranks`` are those of all attempts, ``machines`` those of the latest.
    """
    return RunContext(
        run=run,
        target=query.target or runs.goal_of(run),
        after_seconds=query.after_seconds or run.deadline_seconds or DEFAULT_AFTER_SECONDS,
        price=query.price,
        rule_violations=tuple(rule_violations(run, machines)),
        ended_at=run.finished_at or run_time.now(run),
        ranks=ranks,
        energy_joules=energy_joules,
    )


def energy_of(prometheus: PrometheusClient, run: Run) -> float | None:
    """Return the energy that a run's GPUs used so far; once it is sealed, what was measured then.

    Raises:
        PrometheusError: Prometheus gives no answer.
    """
    is_known = run.archive is not None or run.energy_joules is not None or run.origin
    if is_known or run.started_at is None:
        return run.energy_joules
    ranks = Rank.select(Rank.worker).where(Rank.run == run.id).distinct()
    pods = sorted(rank.worker for rank in ranks)
    ended_at = run.finished_at or run_time.now(run)
    return used_joules(prometheus, pods, run.started_at, ended_at)


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


def _series(reader: SeriesReader, context: RunContext) -> Columns:
    return columns_of(context, partial(reader.run, context.run.id))


def columns_of(context: RunContext, read: Callable[[Selection], NamedSeries]) -> Columns:
    """Read the series that the result of a run is computed from."""
    if context.run.started_at is None:
        return {}
    columns = original.add_totals(to_columns(read(_selection_of(context))))
    # Of the steps, which are many, only those from the last totals on.
    last_us = min(last_totals_us(columns).values(), default=None)
    if last_us is None:
        return columns
    steps = Selection(last_us // 1000 * 1000 - 1, names=(names.STEP,))
    return {**columns, **to_columns(read(steps))}


def _selection_of(context: RunContext) -> Selection:
    run, target = context.run, context.target
    assert run.started_at is not None
    metrics = {*TOTALS, *original.NAMES, *([target.metric] if target else ())}
    # Samples from before the start, which clients may post, are no merit of this run; but those of
    # a rank whose clock is wrong are.
    early = max((one.dated_before - one.clock_ahead for one in context.ranks), default=0.0)
    since_us = int((run.started_at - max(0.0, early)) * 1000) * 1000
    return Selection(since_us - 1, names=tuple(sorted(metrics)))


def _ranks(run: Run) -> list[Rank]:
    """Return the ranks of the latest attempt, with their machines and assignments."""
    columns = Rank.select(Rank.machine, Rank.assignment)
    latest = columns.where(Rank.run == run.id, Rank.attempt == run.attempt)
    return list(latest.order_by(Rank.rank))


def machines_of(ranks: Sequence[Rank]) -> list[Machine]:
    """Return the machines of ranks, as far as they are known."""
    return [rank.machine for rank in ranks if rank.machine]
