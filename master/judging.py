"""Judging runs: gathers what their results and their comparison are computed from."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from master import runs
from master.comparing.comparison import compare
from master.comparing.facts import Machine, facts_of
from master.division import departures, division
from master.models import Rank, Run
from master.reading.columns import Columns, to_columns
from master.reading.energy import used_joules
from master.reading.promql import PrometheusClient
from master.reading.selection import Selection
from master.reading.series import SeriesReader
from master.results import TOTALS, Course, Occupation, Question, evaluate
from mlbench.results import DEFAULT_AFTER_SECONDS, Comparison, Result, Target


@dataclass(frozen=True)
class Wish:
    """What runs shall be judged by; None for what they say themselves."""

    target: Target | None = None
    """By default, each run's own goal."""
    after_seconds: float | None = None
    """By default, each run's deadline, else two hours."""
    price: float | None = None
    """Of a worker-second."""


def judge(reader: SeriesReader, run: Run, wish: Wish) -> Result:
    """Return the result of a run so far.

    Raises:
        falcon.HTTPNotFound: the run was deleted meanwhile, and its series with it.
        PrometheusError: Prometheus gives no answer.
    """
    return _judge(reader, run, wish, _machines(run))


def judge_together(reader: SeriesReader, wanted: Sequence[Run], wish: Wish) -> Comparison:
    """Return the comparison of runs, at least one.

    Raises:
        falcon.HTTPNotFound: a run was deleted meanwhile, and its series with it.
        PrometheusError: Prometheus gives no answer.
    """
    results, facts = [], {}
    for run in wanted:
        machines = _machines(run)
        result = _judge(reader, run, wish, machines)
        results.append(result)
        facts[run.id] = facts_of(run, result, machines)
    return compare(results, facts)


def _judge(reader: SeriesReader, run: Run, wish: Wish, machines: Sequence[Machine]) -> Result:
    question = _question(run, wish)
    course = _course(reader.prometheus, run, machines)
    try:
        return evaluate(course, question, _series(reader, run, question))
    finally:
        # What of a deleted run is incomplete is not Prometheus's fault.
        runs.find(run.id)


def _question(run: Run, wish: Wish) -> Question:
    own = Target(**run.goal) if run.goal else None
    after_seconds = wish.after_seconds or run.deadline_seconds or DEFAULT_AFTER_SECONDS
    return Question(wish.target or own, after_seconds, wish.price)


def _course(prometheus: PrometheusClient, run: Run, machines: Sequence[Machine]) -> Course:
    # Not all that is known of them: a thousand ranks that were restarted are many.
    times = Rank.select(Rank.worker, Rank.attempt, Rank.assigned_at, Rank.exited_at)
    ranks, ended_at = list(times.where(Rank.run == run.id)), run.finished_at or time.time()
    energy = None
    if run.started_at is not None:
        pods = sorted({rank.worker for rank in ranks})
        energy = used_joules(prometheus, pods, run.started_at, ended_at)
    return Course(
        run_id=run.id,
        name=run.name,
        benchmark=run.benchmark,
        state=run.state,
        num_workers=run.num_workers,
        division=division(run),
        departures=tuple(departures(run, machines)),
        started_at=run.started_at,
        ended_at=ended_at,
        occupations=[
            Occupation(rank.attempt, rank.assigned_at, rank.exited_at or ended_at) for rank in ranks
        ],
        energy_joules=energy,
    )


def _series(reader: SeriesReader, run: Run, question: Question) -> Columns:
    if run.started_at is None:
        return {}
    metrics = {*TOTALS, *([question.target.metric] if question.target else ())}
    # What is dated before the start, as posted samples may be, was not reached by this run.
    since_us = int(run.started_at * 1000) * 1000
    return to_columns(reader.run(run.id, Selection(since_us - 1, names=tuple(sorted(metrics)))))


def _machines(run: Run) -> list[Machine]:
    """Return what is stated of the machines of the latest attempt."""
    ranks = Rank.select(Rank.machine).where(Rank.run == run.id, Rank.attempt == run.attempt)
    return [rank.machine for rank in ranks.order_by(Rank.rank) if rank.machine]
