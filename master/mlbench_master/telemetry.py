"""The /metrics of the API: its requests, the master and its spool, the newest runs, the pods."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

import falcon
from falcon import Request, Response
from msgspec import convert
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mlbench.contract import names
from mlbench.contract.distribution import own_version
from mlbench.contract.names import ACTIVE_STATES, RunState
from mlbench.contract.words import swept
from mlbench.evaluation.result import Figures
from mlbench_master.database.connection import find_room, run_sql
from mlbench_master.database.models import KeptSample, Pod, Rank, Run, Worker, run_owner
from mlbench_master.reading.counting import delivered_so_far
from mlbench_master.recording.limits import describe_refused, waiting_bytes

# The newest runs only, so that the number of series is bounded.
_RUNS_SHOWN = 30
# Prometheus has nothing of those that were imported.
_OWN_RUNS = "SELECT id, state, * FROM run WHERE origin IS NULL ORDER BY id DESC LIMIT ?"
# As a label.
_REASON_LENGTH, _VERDICT_LENGTH = 100, 200

_Values = Iterable[tuple[tuple[str, ...], float | None]]
"""Label values, and the value of that series, if it has one."""
Verdicts = Callable[[Sequence[int]], Iterable[tuple[int, str, float]]]
"""Finds, for runs, why they did not go on, in a sentence, and when they were asked."""


class RequestMiddleware:
    """Counts and times requests by route, never by path: a path has ids in it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "route")
        self._seconds = Histogram(
            "mlbench_http_request_seconds", "Time to answer.", labels, registry=registry
        )
        self._requests = Counter(
            "mlbench_http_requests_total", "Answers.", (*labels, "status"), registry=registry
        )

    def process_request(self, req: Request, resp: Response) -> None:
        """Note when the request began."""
        req.context.began = time.perf_counter()

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Count the answer."""
        method = req.method if req.method in falcon.HTTP_METHODS else "other"
        labels = (method, req.uri_template or "none")
        self._seconds.labels(*labels).observe(time.perf_counter() - req.context.began)
        self._requests.labels(*labels, resp.status_code).inc()


class DatabaseCollector(Collector):
    """Reads the database at each scrape."""

    def __init__(self, url: str, spool_limit_bytes: int, verdicts: Verdicts) -> None:
        """Tell of the master that browsers reach at ``url``, and how much its spool may hold."""
        self._url = url
        self._spool_limit_bytes = spool_limit_bytes
        self._verdicts = verdicts
        self._known: tuple[list[Any], Sequence[Metric]] = ([], list(_runs([])))

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the series of the master, its runs and its pods."""
        yield from self._master()
        yield from self._all_runs()
        yield from _pods(list(Pod.select().order_by(Pod.name)))

    def _all_runs(self) -> Iterator[Metric]:
        """Yield the series of the newest runs; of those that have ended, as last time if it can."""
        rows = run_sql(_OWN_RUNS, _RUNS_SHOWN).fetchall()
        active = [row[0] for row in rows if row[1] in ACTIVE_STATES]
        ended = [row for row in rows if row[1] not in ACTIVE_STATES]
        if ended != self._known[0]:
            self._known = ended, list(_runs(_find([row[0] for row in ended])))
        verdicts = self._verdicts([row[0] for row in rows])
        yield _gauge(
            names.RUN_AUTOPSY,
            "When the run was asked last why it does not go on.",
            ("run_id", "verdict"),
            [((str(run), text[:_VERDICT_LENGTH]), asked_at) for run, text, asked_at in verdicts],
        )
        # Without runs, there are the same families.
        for family, same in zip(_runs(_find(active)), self._known[1], strict=True):
            family.samples += same.samples
            yield family

    def _master(self) -> Iterator[Metric]:
        yield _gauge(
            names.MASTER_INFO,
            "Where a browser reaches the master.",
            ("url", "version"),
            [((self._url, own_version()), 1.0)],
        )
        wait, may_wait = "mlbench_spool_bytes", "mlbench_spool_limit_bytes"
        family = GaugeMetricFamily
        yield family(wait, "Bytes of recorded samples that wait for Prometheus.", waiting_bytes())
        text = "Bytes that may wait: the master takes no samples beyond it."
        yield family(may_wait, text, self._spool_limit_bytes)
        if room := find_room():
            free = "mlbench_database_disk_free_bytes"
            text = "Bytes that are free on the disk of the database."
            yield _gauge(free, text, ("path",), [((room.path,), room.free)])
            text = "Below so many free bytes the master takes no logs and samples."
            yield family("mlbench_database_reserve_bytes", text, room.least)
        unsealed = Run.select().where(Run.sealed_at.is_null(), Run.archive_problem != "")
        text = "Runs that have ended and whose archive could not be written yet."
        yield family("mlbench_unsealed_runs", text, unsealed.count())
        kept = KeptSample.select().count()
        yield family("mlbench_kept_samples", "Samples that Prometheus cannot hold.", kept)


def _find(ids: Sequence[int]) -> list[Run]:
    return list(Run.select().where(Run.id.in_(ids)).order_by(Run.id.desc())) if ids else []


def _gauge(name: str, help_text: str, labels: Sequence[str], values: _Values) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for label_values, value in values:
        if value is not None:
            family.add_metric(label_values, float(value))
    return family


def _runs(runs: Sequence[Run]) -> Iterator[Metric]:
    yield _gauge(
        names.RUN_INFO,
        "What the run is.",
        ("run_id", "name", "benchmark", "backend", "workers"),
        [((str(r.id), r.own_name, r.benchmark, r.backend, str(r.num_workers)), 1.0) for r in runs],
    )
    yield _gauge(
        names.RUN_SET_INFO,
        "The benchmark set of the run, and what the run has of what that sweeps.",
        ("run_id", "set", "swept"),
        [((str(r.id), r.set_name, swept(r.swept or {})), 1.0) for r in runs if r.set_name],
    )
    yield _gauge(
        names.RUN_STATE,
        "1 for the state that the run is in.",
        ("run_id", "state"),
        [((str(r.id), state), r.state == state) for r in runs for state in get_args(RunState)],
    )
    yield _gauge(
        names.RUN_GOAL,
        "The value that the run wants to reach.",
        ("run_id", "metric", "better"),
        [(_goal_labels(r), r.goal["value"]) for r in runs if r.goal],
    )
    yield _gauge(
        names.RUN_FAILURE,
        "Why the run failed, in short.",
        ("run_id", "reason"),
        [((str(r.id), _failure(r)), 1.0) for r in runs if r.state == "FAILED"],
    )
    yield _gauge(
        names.RUN_SAMPLES,
        "Samples of the run by place: delivered so far, or counted by query once it has ended.",
        ("run_id", "place"),
        [((str(r.id), place), samples) for r in runs for place, samples in _samples(r).items()],
    )
    lost = _lost_ranks(runs)
    each: tuple[tuple[str, str, Callable[[Run], float | None]], ...] = (
        (names.RUN_CREATED, "When the run was ordered.", lambda r: r.created_at),
        (names.RUN_STARTED, "When the run got its workers.", lambda r: r.started_at),
        (names.RUN_FINISHED, "When the run ended.", lambda r: r.finished_at),
        (names.RUN_GOAL_REACHED, "When the goal was first reached.", lambda r: r.goal_reached_at),
        (names.RUN_TIME_TO_GOAL, "Training time to the goal.", lambda r: r.goal_train_seconds),
        (names.RUN_WORKERS, "Workers of the run.", lambda r: r.num_workers),
        (names.RUN_WORLD_SIZE, "Processes of the run, a rank each.", lambda r: r.world_size),
        (names.RUN_CPUS, "Cores of each worker, where the order says it.", lambda r: r.num_cpus),
        (names.RUN_THREADS, "Threads of each process, where the task states them.", _threads),
        (names.RUN_ATTEMPTS, "Attempts so far.", lambda r: r.attempt),
        (names.RUN_LOST_RANKS, "Lost ranks of the latest attempt.", lambda r: lost[r.id]),
        (names.RUN_WAITING, "Bytes that wait for Prometheus, of an active run.", _waiting),
    )
    for name, help_text, value in each:
        yield _gauge(name, help_text, ("run_id",), [((str(r.id),), value(r)) for r in runs])
    # Those of runs that an earlier version sealed have figures that are no more.
    yield from _figures({str(run.id): convert(run.figures, Figures) for run in runs if run.figures})


def _figures(runs: Mapping[str, Figures]) -> Iterator[Metric]:
    """Yield what the results of runs that have ended say, by the runs' ids."""
    of_runs = (
        (names.RUN_TRAINING_SECONDS, "Training time.", "training_seconds"),
        (names.RUN_SAMPLES_PER_SECOND, "Samples a second.", "samples_per_second"),
        (names.RUN_TRAINED_SAMPLES, "Samples of all ranks.", "samples"),
        (names.RUN_STEP_SECONDS, "Mean time of a step.", "step_seconds"),
        (names.RUN_COMMUNICATION, "Of training.", "communication_share"),
        (names.RUN_DISTURBED, "1 if it was disturbed.", "disturbed"),
        (names.RUN_EPOCHS, "Epochs begun.", "epochs"),
    )
    for name, help_text, field in of_runs:
        values = [((run_id,), getattr(of, field)) for run_id, of in runs.items()]
        yield _gauge(name, help_text, ("run_id",), values)
    ended = [((i, of.outcome.kind), 1.0) for i, of in runs.items() if of.outcome]
    yield _gauge(names.RUN_OUTCOME, "1 for the outcome of the run.", ("run_id", "outcome"), ended)
    waiting = "Of the time, the rank waited for a core."
    straggler = "Times as fast it would be if no rank were late; the rank that was late most."
    of_one = (
        (names.RUN_WAITING_RATIO, waiting, "rank", "waiting_rank", "waiting_share"),
        (names.RUN_STRAGGLER, straggler, "rank", "late_rank", "without_late"),
        (names.RUN_BEST_VALUE, "Of the goal's metric.", "metric", "metric", "best_value"),
        (names.RUN_LAST_VALUE, "Of the goal's metric.", "metric", "metric", "last_value"),
    )
    for name, help_text, label, which, field in of_one:
        ones = [((i, str(getattr(of, which))), getattr(of, field)) for i, of in runs.items()]
        yield _gauge(name, help_text, ("run_id", label), ones)
    phases = [((i, phase), value) for i, of in runs.items() for phase, value in of.phases.items()]
    yield _gauge(names.RUN_PHASE_SECONDS, "Mean of the ranks.", ("run_id", "phase"), phases)
    cut = [((i, bucket), value) for i, of in runs.items() for bucket, value in of.goodput.items()]
    yield _gauge(names.RUN_GOODPUT, "Of all workers.", ("run_id", "bucket"), cut)


def _goal_labels(run: Run) -> tuple[str, str, str]:
    better = "lower" if run.goal["lower_is_better"] else "higher"
    return str(run.id), run.goal["metric"], better


def _failure(run: Run) -> str:
    """Return the last line of the reason: the error, where a rank wrote one."""
    reason = "; ".join(filter(None, [describe_refused(run), run.reason]))
    return reason.rpartition("\n")[2].strip()[:_REASON_LENGTH]


def _threads(run: Run) -> float | None:
    stated = (run.settings or {}).get("threads")
    return stated if isinstance(stated, int) else None


def _waiting(run: Run) -> int | None:
    return waiting_bytes(run_owner(run.id)) if run.state in ACTIVE_STATES else None


def _lost_ranks(runs: Sequence[Run]) -> Mapping[int, int]:
    lost = (
        Rank.select(Rank.run)
        .join(Run)
        .where(Rank.run.in_(runs), Rank.attempt == Run.attempt, Rank.lost != "")
    )
    return Tally(rank.run_id for rank in lost) if runs else {}


def _samples(run: Run) -> Mapping[str, int]:
    if run.delivery is None and run.state in ACTIVE_STATES:
        return asdict(delivered_so_far(run.id))
    return run.delivery or {}


def _pods(pods: Sequence[Pod]) -> Iterator[Metric]:
    yield _gauge(
        names.POD_INFO,
        "What the pool says of the pod.",
        ("pod", "phase", "node"),
        [((pod.name, pod.phase, pod.node), 1.0) for pod in pods],
    )
    workers = list(Worker.select().where(Worker.name.in_([pod.name for pod in pods])))
    yield _gauge(
        names.POD_HEARTBEAT,
        "When the pod's agent was last heard of.",
        ("pod",),
        [((worker.name,), worker.seen_at) for worker in workers],
    )
    yield from _recorded(pods, workers)


def _recorded(pods: Sequence[Pod], workers: Sequence[Worker]) -> Iterator[Metric]:
    """Yield of ranks that others start what an agent and an exporter tell of worker pods."""
    nodes = {pod.name: pod.node for pod in pods if pod.external}
    columns = Rank.select(Rank.worker, Rank.run, Rank.rank, Rank.exit_code).join(Run)
    going_on = Rank.worker.in_([*nodes]), Run.state.in_(ACTIVE_STATES), Rank.attempt == Run.attempt
    ranks = list(columns.where(*going_on)) if nodes else []
    yield _gauge(
        names.WORKER_INFO,
        "Which run and rank is recorded.",
        ("pod", "run_id", "rank"),
        [((row.worker, str(row.run_id), str(row.rank)), 1.0) for row in ranks],
    )
    yield _gauge(
        names.WORKER_RUNNING,
        "Whether the recorded rank goes on.",
        ("run_id", "rank"),
        [((str(row.run_id), str(row.rank)), row.exit_code is None) for row in ranks],
    )
    recorded = [worker for worker in workers if worker.resources and worker.name in nodes]
    of_pods = [(("", pod.name, "worker", nodes[pod.name]), pod.resources) for pod in recorded]
    labels = ("namespace", "pod", "container", "node")
    yield from _reported(names.RESOURCES, "What a rank uses that others start.", labels, of_pods)
    reported = {pod.name: pod.resources for pod in recorded}
    of_ranks = [((str(row.run_id), str(row.rank)), reported.get(row.worker, {})) for row in ranks]
    progress = "As agents tell it of other ranks."
    yield from _reported(names.PROGRESS, progress, ("run_id", "rank"), of_ranks)


def _reported(
    series: Sequence[str],
    help_text: str,
    labels: Sequence[str],
    values: Sequence[tuple[Sequence[str], Mapping[str, float]]],
) -> Iterator[Metric]:
    """Yield series of recorded ranks, by labels: counters or gauges, as their names say."""
    for name in series:
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = kind(name, help_text, labels=labels)
        for who, of in values:
            if name in of:
                family.add_metric(who, of[name])
        yield family
