"""Metrics of the API: its requests, the master and its spool, the newest runs, and the pods."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
from mlbench.contract.humanize import swept
from mlbench.contract.names import ACTIVE_STATES, RunState
from mlbench.evaluation.summary_metrics import SummaryMetrics
from mlbench_master.database.connection import find_room, run_sql
from mlbench_master.database.models import Pod, Rank, Run, Worker, run_owner
from mlbench_master.reading.counting import recorded_so_far
from mlbench_master.recording.limits import describe_refused
from mlbench_master.recording.streams import waiting_bytes

Verdicts = Callable[[Sequence[int]], Iterable[tuple[int, str, float]]]
"""Returns hang diagnoses of runs by id: id, verdict, and Unix seconds of the diagnosis."""
_Sample = tuple[str, tuple[str, ...], float | None]
"""Name, label values and value of a series; None for a series without a value."""

_POD = ("namespace", "pod", "container", "node")
# Name, help text and labels of each series that is read from the database.
_FAMILIES: Sequence[tuple[str, str, tuple[str, ...]]] = (
    (names.MASTER_INFO, "Address of the master for browsers.", ("url", "version")),
    (
        "mlbench_spool_bytes",
        "Bytes of samples that were received and are not in the record yet.",
        (),
    ),
    (
        "mlbench_spool_limit_bytes",
        "Limit on the bytes that wait, above which the master refuses samples.",
        (),
    ),
    ("mlbench_unsealed_runs", "Ended runs whose archive could not be written yet.", ()),
    ("mlbench_unexported_samples", "Recorded samples that wait for Prometheus.", ()),
    ("mlbench_database_disk_free_bytes", "Free bytes on the disk of the database.", ("path",)),
    (
        "mlbench_database_reserve_bytes",
        "Free bytes below which the master refuses logs and samples.",
        (),
    ),
    (
        names.RUN_DIAGNOSIS,
        "When the run's last hang diagnosis was requested.",
        ("run_id", "verdict"),
    ),
    (
        names.RUN_INFO,
        "Name, user, benchmark, backend and workers of the run.",
        ("run_id", "name", "user", "benchmark", "backend", "workers"),
    ),
    (
        names.RUN_SET_INFO,
        "Benchmark set of the run, and its swept values.",
        ("run_id", "set", "swept"),
    ),
    (names.RUN_STATE, "1 for the state that the run is in.", ("run_id", "state")),
    (names.RUN_TARGET, "Target of the run.", ("run_id", "metric", "better")),
    (names.RUN_FAILURE, "Reason why the run failed, shortened.", ("run_id", "reason")),
    (
        names.RUN_SAMPLES,
        "Samples of the run by place: recorded so far, and counted by query after its end.",
        ("run_id", "place"),
    ),
    (names.RUN_CREATED, "When the run was submitted.", ("run_id",)),
    (names.RUN_STARTED, "When the run got its workers.", ("run_id",)),
    (names.RUN_FINISHED, "When the run ended.", ("run_id",)),
    (names.RUN_TARGET_REACHED, "When the target was first reached.", ("run_id",)),
    (names.RUN_TIME_TO_TARGET, "Training time to the target.", ("run_id",)),
    (names.RUN_WORKERS, "Workers of the run.", ("run_id",)),
    (names.RUN_WORLD_SIZE, "Processes of the run, each with a rank.", ("run_id",)),
    (names.RUN_CPUS, "Requested cores of each worker.", ("run_id",)),
    (names.RUN_THREADS, "Threads of each process, if reported.", ("run_id",)),
    (names.RUN_ATTEMPTS, "Attempts so far.", ("run_id",)),
    (names.RUN_LOST_RANKS, "Lost ranks of the latest attempt.", ("run_id",)),
    (names.RUN_WAITING, "Bytes of an active run that wait for Prometheus.", ("run_id",)),
    (names.RUN_TRAINING_SECONDS, "Training time.", ("run_id",)),
    (names.RUN_SAMPLES_PER_SECOND, "Samples per second.", ("run_id",)),
    (names.RUN_TRAINED_SAMPLES, "Samples of all ranks.", ("run_id",)),
    (names.RUN_STEP_SECONDS, "Mean step time.", ("run_id",)),
    (names.RUN_COMMUNICATION, "Share of training time.", ("run_id",)),
    (names.RUN_DISTURBED, "1 if the run was disturbed.", ("run_id",)),
    (names.RUN_EPOCHS, "Started epochs.", ("run_id",)),
    (names.RUN_OUTCOME, "1 for the outcome of the run.", ("run_id", "outcome")),
    (
        names.RUN_CONTENTION_RATIO,
        "Share of time in which the rank waited for a core.",
        ("run_id", "rank"),
    ),
    (
        names.RUN_STRAGGLER,
        "Speedup if the straggler had been on time; rank: the straggler.",
        ("run_id", "rank"),
    ),
    (names.RUN_BEST_VALUE, "Best value of the target's metric.", ("run_id", "metric")),
    (names.RUN_LAST_VALUE, "Last value of the target's metric.", ("run_id", "metric")),
    (names.RUN_PHASE_SECONDS, "Mean of the ranks' seconds in a phase.", ("run_id", "phase")),
    (names.RUN_GOODPUT, "Seconds of all workers in a bucket.", ("run_id", "bucket")),
    (names.POD_INFO, "Phase and node of the pod.", ("pod", "phase", "node")),
    (names.POD_HEARTBEAT, "Last report of the pod's agent.", ("pod",)),
    (names.WORKER_INFO, "Run and rank of the pod.", ("pod", "run_id", "rank")),
    (names.WORKER_RUNNING, "1 while the rank's process runs.", ("run_id", "rank")),
    *((name, "Resource usage of an external rank.", _POD) for name in names.RESOURCES),
    *((name, "Progress of an external rank.", ("run_id", "rank")) for name in names.PROGRESS),
)
# The newest runs only, so that the number of series is bounded. Prometheus has no samples of
# imported runs.
_RUNS = "SELECT id, state, * FROM run WHERE origin IS NULL ORDER BY id DESC LIMIT 30"
_UNEXPORTED = "SELECT COALESCE(SUM(samples), 0) FROM block WHERE exported IS NULL"


class RequestMiddleware:
    """Counts and times requests by route, not by path, because paths contain ids."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "route")
        self._seconds = Histogram(
            "mlbench_http_request_seconds", "Response time.", labels, registry=registry
        )
        self._requests = Counter(
            "mlbench_http_requests_total", "Responses.", (*labels, "status"), registry=registry
        )

    def process_request(self, req: Request, resp: Response) -> None:
        req.context.began = time.perf_counter()

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        method = req.method if req.method in falcon.HTTP_METHODS else "other"
        labels = (method, req.uri_template or "none")
        self._seconds.labels(*labels).observe(time.perf_counter() - req.context.began)
        self._requests.labels(*labels, resp.status_code).inc()


class DatabaseCollector(Collector):
    """Collector for metrics that it reads from the database at each scrape."""

    def __init__(self, url: str, spool_limit_bytes: int, verdicts: Verdicts) -> None:
        """Store the settings; ``url`` is the address of the master for browsers."""
        self._url = url
        self._spool_limit_bytes = spool_limit_bytes
        self._verdicts = verdicts
        # Rows of the ended runs at the last scrape, and their samples.
        self._ended: tuple[list[Any], list[_Sample]] = ([], [])

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the series of the master, its newest runs and its pods."""
        families = {}
        for name, help_text, labels in _FAMILIES:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            families[name] = kind(name, help_text, labels=labels)
        for name, label_values, value in chain(self._of_master(), self._of_runs(), _of_pods()):
            if value is not None:
                families[name].add_metric(label_values, float(value))
        yield from families.values()

    def _of_master(self) -> Iterator[_Sample]:
        yield names.MASTER_INFO, (self._url, own_version()), 1.0
        yield "mlbench_spool_bytes", (), waiting_bytes()
        yield "mlbench_spool_limit_bytes", (), self._spool_limit_bytes
        unsealed = Run.select().where(Run.sealed_at.is_null(), Run.archive_problem != "")
        yield "mlbench_unsealed_runs", (), unsealed.count()
        yield "mlbench_unexported_samples", (), run_sql(_UNEXPORTED).fetchone()[0]
        if room := find_room():
            yield "mlbench_database_disk_free_bytes", (room.path,), room.free
            yield "mlbench_database_reserve_bytes", (), room.least

    def _of_runs(self) -> Iterator[_Sample]:
        rows = run_sql(_RUNS).fetchall()
        for run_id, verdict, asked_at in self._verdicts([row[0] for row in rows]):
            yield names.RUN_DIAGNOSIS, (str(run_id), verdict[:200]), asked_at
        active = [row[0] for row in rows if row[1] in ACTIVE_STATES]
        ended = [row for row in rows if row[1] not in ACTIVE_STATES]
        yield from _of_runs_by_id(active)
        # The samples of ended runs are read again only if an ended run has changed.
        if ended != self._ended[0]:
            self._ended = ended, [*_of_runs_by_id([row[0] for row in ended])]
        yield from self._ended[1]


def _of_runs_by_id(ids: Sequence[int]) -> Iterator[_Sample]:
    for run in Run.select().where(Run.id.in_(ids)).order_by(Run.id.desc()) if ids else ():
        for name, label_values, value in _of_run(run):
            yield name, (str(run.id), *label_values), value


def _of_run(run: Run) -> Iterator[_Sample]:
    """Yield the state of a run and the figures of its result, without the label of its id."""
    is_active = run.state in ACTIVE_STATES
    workers = str(run.num_workers)
    yield names.RUN_INFO, (run.own_name, run.user, run.benchmark, run.backend, workers), 1.0
    if run.set_name:
        yield names.RUN_SET_INFO, (run.set_name, swept(run.swept or {})), 1.0
    for state in get_args(RunState):
        yield names.RUN_STATE, (state,), run.state == state
    if target := run.target:
        better = "lower" if target["lower_is_better"] else "higher"
        yield names.RUN_TARGET, (target["metric"], better), target["value"]
    if run.state == "FAILED":
        # The last line of the reason is the error if a rank wrote one.
        reason = "; ".join(filter(None, [describe_refused(run), run.reason]))
        yield names.RUN_FAILURE, (reason.rpartition("\n")[2].strip()[:100],), 1.0
    samples = run.delivery or {}
    if run.delivery is None and is_active:
        samples = {"recorded": recorded_so_far(run.id)}
    for place, count in samples.items():
        yield names.RUN_SAMPLES, (place,), count
    threads = (run.settings or {}).get("threads")
    lost = Rank.select().where(Rank.run == run, Rank.attempt == run.attempt, Rank.lost != "")
    values = {
        names.RUN_CREATED: run.created_at,
        names.RUN_STARTED: run.started_at,
        names.RUN_FINISHED: run.finished_at,
        names.RUN_TARGET_REACHED: run.target_reached_at,
        names.RUN_TIME_TO_TARGET: run.target_train_seconds,
        names.RUN_WORKERS: run.num_workers,
        names.RUN_WORLD_SIZE: run.world_size,
        names.RUN_CPUS: run.num_cpus,
        names.RUN_THREADS: threads if isinstance(threads, int) else None,
        names.RUN_ATTEMPTS: run.attempt,
        names.RUN_LOST_RANKS: lost.count(),
        names.RUN_WAITING: waiting_bytes(run_owner(run.id)) if is_active else None,
    }
    yield from ((name, (), value) for name, value in values.items())
    if not run.figures:  # not ended, or not sealed yet
        return
    # Convert drops figures that only earlier versions stored.
    figures = convert(run.figures, SummaryMetrics)
    yield names.RUN_TRAINING_SECONDS, (), figures.training_seconds
    yield names.RUN_SAMPLES_PER_SECOND, (), figures.samples_per_second
    yield names.RUN_TRAINED_SAMPLES, (), figures.samples
    yield names.RUN_STEP_SECONDS, (), figures.step_seconds
    yield names.RUN_COMMUNICATION, (), figures.communication_share
    yield names.RUN_DISTURBED, (), figures.disturbed
    yield names.RUN_EPOCHS, (), figures.epochs
    if figures.outcome:
        yield names.RUN_OUTCOME, (figures.outcome.kind,), 1.0
    yield names.RUN_CONTENTION_RATIO, (str(figures.contention_rank),), figures.contention_share
    yield names.RUN_STRAGGLER, (str(figures.late_rank),), figures.without_late
    yield names.RUN_BEST_VALUE, (str(figures.metric),), figures.best_value
    yield names.RUN_LAST_VALUE, (str(figures.metric),), figures.last_value
    for phase, seconds in figures.phases.items():
        yield names.RUN_PHASE_SECONDS, (phase,), seconds
    for bucket, seconds in figures.goodput.items():
        yield names.RUN_GOODPUT, (bucket,), seconds


def _of_pods() -> Iterator[_Sample]:
    pods = list(Pod.select().order_by(Pod.name))
    for pod in pods:
        yield names.POD_INFO, (pod.name, pod.phase, pod.node), 1.0
    # External ranks have the series that the agent and the exporter of a worker pod have.
    nodes = {pod.name: pod.node for pod in pods if pod.external}
    reported: dict[str, Mapping[str, float]] = {}
    for worker in Worker.select().where(Worker.name.in_([pod.name for pod in pods])):
        yield names.POD_HEARTBEAT, (worker.name,), worker.seen_at
        if worker.resources and worker.name in nodes:
            reported[worker.name] = worker.resources
            whose = ("", worker.name, "worker", nodes[worker.name])
            yield from ((name, whose, worker.resources.get(name)) for name in names.RESOURCES)
    if not nodes:
        return
    columns = Rank.select(Rank.worker, Rank.run, Rank.rank, Rank.exit_code).join(Run)
    is_active = Run.state.in_(ACTIVE_STATES) & (Rank.attempt == Run.attempt)
    for row in columns.where(Rank.worker.in_([*nodes]), is_active):
        rank = (str(row.run_id), str(row.rank))
        yield names.WORKER_INFO, (row.worker, *rank), 1.0
        yield names.WORKER_RUNNING, rank, row.exit_code is None
        progress = reported.get(row.worker, {})
        yield from ((name, rank, progress.get(name)) for name in names.PROGRESS)
