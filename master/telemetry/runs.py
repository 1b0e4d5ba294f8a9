"""The newest runs, as the database knows them: state, dates, goal, samples, and what went wrong."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import get_args

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from master.models import Rank, Run, run_owner
from master.reading.counting import delivered_so_far
from master.recording.limits import waiting_bytes
from master.telemetry.reading import DatabaseCollector
from mlbench import names
from mlbench.names import ACTIVE_STATES, RunState

# The newest runs, and so a bounded number of series.
_RUNS_SHOWN = 100


class RunsCollector(DatabaseCollector):
    """Tells of the hundred newest runs."""

    def collect(self) -> Iterator[Metric]:
        """Yield the series of the newest runs."""
        newest = list(Run.select().order_by(Run.id.desc()).limit(_RUNS_SHOWN))
        yield _info(newest)
        yield _states(newest)
        yield _each(
            names.RUN_CREATED, "When the run was ordered.", newest, lambda run: run.created_at
        )
        yield _each(
            names.RUN_STARTED, "When the run got its workers.", newest, lambda run: run.started_at
        )
        yield _each(names.RUN_FINISHED, "When the run ended.", newest, lambda run: run.finished_at)
        yield _goals(newest)
        yield _each(
            names.RUN_GOAL_REACHED,
            "When the run's goal was reached first.",
            newest,
            lambda run: run.goal_reached_at,
        )
        yield _each(
            names.RUN_TIME_TO_GOAL,
            "Training time until the goal was reached, evaluation left out.",
            newest,
            lambda run: run.goal_train_seconds,
        )
        yield _each(names.RUN_WORKERS, "Ranks of the run.", newest, lambda run: run.num_workers)
        yield _each(
            names.RUN_ATTEMPTS,
            "Attempts so far: more than 1 where ranks were restarted.",
            newest,
            lambda run: run.attempt,
        )
        lost = _lost_ranks(newest)
        yield _each(
            names.RUN_LOST_RANKS,
            "Ranks of the latest attempt that were given up as lost.",
            newest,
            lambda run: lost.get(run.id, 0),
        )
        yield _samples(newest)
        yield _each(
            names.RUN_WAITING,
            "Bytes of the active run's samples that wait for Prometheus.",
            [run for run in newest if run.state in ACTIVE_STATES],
            lambda run: waiting_bytes(run_owner(run.id)),
        )


def _info(runs: Sequence[Run]) -> Metric:
    family = GaugeMetricFamily(
        names.RUN_INFO,
        "What the run is.",
        labels=("run_id", "name", "benchmark", "backend", "workers"),
    )
    for run in runs:
        family.add_metric(
            (str(run.id), run.name, run.benchmark, run.backend, str(run.num_workers)), 1.0
        )
    return family


def _states(runs: Sequence[Run]) -> Metric:
    family = GaugeMetricFamily(
        names.RUN_STATE, "1 for the state that the run is in.", labels=("run_id", "state")
    )
    for run in runs:
        for state in get_args(RunState):
            family.add_metric((str(run.id), state), float(run.state == state))
    return family


def _each(
    name: str, help_text: str, runs: Sequence[Run], value: Callable[[Run], float | None]
) -> Metric:
    """Return a gauge with the value of each run that has one."""
    family = GaugeMetricFamily(name, help_text, labels=("run_id",))
    for run in runs:
        if (found := value(run)) is not None:
            family.add_metric((str(run.id),), found)
    return family


def _goals(runs: Sequence[Run]) -> Metric:
    family = GaugeMetricFamily(
        names.RUN_GOAL, "The value that the run wants to reach.", labels=("run_id", "metric")
    )
    for run in runs:
        if run.goal:
            family.add_metric((str(run.id), run.goal["metric"]), run.goal["value"])
    return family


def _lost_ranks(runs: Sequence[Run]) -> Mapping[int, int]:
    """Return how many ranks of its latest attempt each run has lost, of runs that lost any."""
    lost = (
        Rank.select(Rank.run)
        .join(Run)
        .where(Rank.run.in_(runs), Rank.attempt == Run.attempt, Rank.lost != "")
    )
    return Counter(rank.run_id for rank in lost)


def _samples(runs: Sequence[Run]) -> Metric:
    family = GaugeMetricFamily(
        names.RUN_SAMPLES,
        "Samples of the run by place: delivered so far, or counted by query once it has ended.",
        labels=("run_id", "place"),
    )
    for run in runs:
        counted = run.delivery
        if counted is None and run.state in ACTIVE_STATES:
            counted = asdict(delivered_so_far(run.id))
        for place, samples in (counted or {}).items():
            family.add_metric((str(run.id), place), samples)
    return family
