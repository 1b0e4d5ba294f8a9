"""Metrics of the API: its requests, the master and its spool, the newest runs, and the pods."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

# Label of a target, by whether a lower value is better.
_BETTER = {True: "lower", False: "higher"}

_Values = Iterable[tuple[tuple[str, ...], float | None]]
"""Label values and value of each series; None for a series without a value."""
Verdicts = Callable[[Sequence[int]], Iterable[tuple[int, str, float]]]
"""Returns hang diagnoses of runs by id: id, verdict, and Unix seconds of the diagnosis."""


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


_UNEXPORTED = "SELECT COALESCE(SUM(samples), 0) FROM block WHERE exported IS NULL"


class DatabaseCollector(Collector):
    """Collector for metrics that it reads from the database at each scrape."""

    def __init__(self, url: str, spool_limit_bytes: int, verdicts: Verdicts) -> None:
        """Prepare; ``url`` is the address of the master for browsers."""
        self._url = url
        self._spool_limit_bytes = spool_limit_bytes
        self._verdicts = verdicts
        self._known: tuple[list[Any], Sequence[Metric]] = ([], list(_runs([])))

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the series of the master, its newest runs and its pods."""
        yield from self._master()
        # Prometheus has no samples of imported runs.
        own_runs = "SELECT id, state, * FROM run WHERE origin IS NULL ORDER BY id DESC LIMIT ?"
        # The newest runs only, so that the number of series is bounded.
        rows = run_sql(own_runs, 30).fetchall()
        active = [row[0] for row in rows if row[1] in ACTIVE_STATES]
        ended = [row for row in rows if row[1] not in ACTIVE_STATES]
        # The series of ended runs are computed again only if an ended run has changed.
        if ended != self._known[0]:
            self._known = ended, list(_runs(_find([row[0] for row in ended])))
        verdicts = self._verdicts([row[0] for row in rows])
        yield _gauge(
            names.RUN_DIAGNOSIS,
            "When the run's last hang diagnosis was requested.",
            ("run_id", "verdict"),
            [((str(run), verdict[:200]), asked_at) for run, verdict, asked_at in verdicts],
        )
        # Both lists have the same families, even without runs.
        for family, of_ended in zip(_runs(_find(active)), self._known[1], strict=True):
            family.samples += of_ended.samples
            yield family
        yield from _pods(list(Pod.select().order_by(Pod.name)))

    def _master(self) -> Iterator[Metric]:
        yield _gauge(
            names.MASTER_INFO,
            "Address of the master for browsers.",
            ("url", "version"),
            [((self._url, own_version()), 1.0)],
        )
        unsealed = Run.select().where(Run.sealed_at.is_null(), Run.archive_problem != "")
        gauges = [
            (
                "mlbench_spool_bytes",
                "Bytes of samples that were received and are not in the record yet.",
                waiting_bytes(),
            ),
            (
                "mlbench_spool_limit_bytes",
                "Limit on the bytes that wait, above which the master refuses samples.",
                self._spool_limit_bytes,
            ),
            (
                "mlbench_unsealed_runs",
                "Ended runs whose archive could not be written yet.",
                unsealed.count(),
            ),
            (
                "mlbench_unexported_samples",
                "Recorded samples that wait for Prometheus.",
                run_sql(_UNEXPORTED).fetchone()[0],
            ),
        ]
        if room := find_room():
            yield _gauge(
                "mlbench_database_disk_free_bytes",
                "Free bytes on the disk of the database.",
                ("path",),
                [((room.path,), room.free)],
            )
            gauges.append(
                (
                    "mlbench_database_reserve_bytes",
                    "Free bytes below which the master refuses logs and samples.",
                    room.least,
                )
            )
        for name, help_text, value in gauges:
            yield GaugeMetricFamily(name, help_text, value)


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
        "Name, user, benchmark, backend and workers of the run.",
        ("run_id", "name", "user", "benchmark", "backend", "workers"),
        [
            (
                (str(r.id), r.own_name, r.user, r.benchmark, r.backend, str(r.num_workers)),
                1.0,
            )
            for r in runs
        ],
    )
    yield _gauge(
        names.RUN_SET_INFO,
        "Benchmark set of the run, and its swept values.",
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
        names.RUN_TARGET,
        "Target of the run.",
        ("run_id", "metric", "better"),
        [
            (
                (str(r.id), r.target["metric"], _BETTER[r.target["lower_is_better"]]),
                r.target["value"],
            )
            for r in runs
            if r.target
        ],
    )
    yield _gauge(
        names.RUN_FAILURE,
        "Reason why the run failed, shortened.",
        ("run_id", "reason"),
        [((str(r.id), _failure(r)), 1.0) for r in runs if r.state == "FAILED"],
    )
    yield _gauge(
        names.RUN_SAMPLES,
        "Samples of the run by place: recorded so far, and counted by query after its end.",
        ("run_id", "place"),
        [
            ((str(r.id), place), samples)
            for r in runs
            for place, samples in (
                {"recorded": recorded_so_far(r.id)}
                if r.delivery is None and r.state in ACTIVE_STATES
                else r.delivery or {}
            ).items()
        ],
    )
    lost_ranks = (
        Rank.select(Rank.run)
        .join(Run)
        .where(Rank.run.in_(runs), Rank.attempt == Run.attempt, Rank.lost != "")
    )
    lost = Tally(rank.run_id for rank in lost_ranks) if runs else Tally()
    values: tuple[tuple[str, str, Callable[[Run], float | None]], ...] = (
        (names.RUN_CREATED, "When the run was submitted.", lambda r: r.created_at),
        (names.RUN_STARTED, "When the run got its workers.", lambda r: r.started_at),
        (names.RUN_FINISHED, "When the run ended.", lambda r: r.finished_at),
        (
            names.RUN_TARGET_REACHED,
            "When the target was first reached.",
            lambda r: r.target_reached_at,
        ),
        (
            names.RUN_TIME_TO_TARGET,
            "Training time to the target.",
            lambda r: r.target_train_seconds,
        ),
        (names.RUN_WORKERS, "Workers of the run.", lambda r: r.num_workers),
        (names.RUN_WORLD_SIZE, "Processes of the run, each with a rank.", lambda r: r.world_size),
        (names.RUN_CPUS, "Requested cores of each worker.", lambda r: r.num_cpus),
        (names.RUN_THREADS, "Threads of each process, if reported.", _threads),
        (names.RUN_ATTEMPTS, "Attempts so far.", lambda r: r.attempt),
        (names.RUN_LOST_RANKS, "Lost ranks of the latest attempt.", lambda r: lost[r.id]),
        (
            names.RUN_WAITING,
            "Bytes of an active run that wait for Prometheus.",
            lambda r: waiting_bytes(run_owner(r.id)) if r.state in ACTIVE_STATES else None,
        ),
    )
    for name, help_text, value in values:
        yield _gauge(name, help_text, ("run_id",), [((str(r.id),), value(r)) for r in runs])
    # Convert drops figures that only earlier versions stored.
    yield from _figures(
        {str(run.id): convert(run.figures, SummaryMetrics) for run in runs if run.figures}
    )


def _figures(runs: Mapping[str, SummaryMetrics]) -> Iterator[Metric]:
    """Yield the figures of ended runs' results, by run id."""
    of_runs = (
        (names.RUN_TRAINING_SECONDS, "Training time.", "training_seconds"),
        (names.RUN_SAMPLES_PER_SECOND, "Samples per second.", "samples_per_second"),
        (names.RUN_TRAINED_SAMPLES, "Samples of all ranks.", "samples"),
        (names.RUN_STEP_SECONDS, "Mean step time.", "step_seconds"),
        (names.RUN_COMMUNICATION, "Share of training time.", "communication_share"),
        (names.RUN_DISTURBED, "1 if the run was disturbed.", "disturbed"),
        (names.RUN_EPOCHS, "Started epochs.", "epochs"),
    )
    for name, help_text, field in of_runs:
        run_values = [((i,), getattr(figures, field)) for i, figures in runs.items()]
        yield _gauge(name, help_text, ("run_id",), run_values)
    outcomes = [((i, f.outcome.kind), 1.0) for i, f in runs.items() if f.outcome]
    help_text = "1 for the outcome of the run."
    yield _gauge(names.RUN_OUTCOME, help_text, ("run_id", "outcome"), outcomes)
    waiting = "Share of time in which the rank waited for a core."
    straggler = "Speedup if no rank had been late, and the rank that was late most."
    labelled = (
        (names.RUN_CONTENTION_RATIO, waiting, "rank", "contention_rank", "contention_share"),
        (names.RUN_STRAGGLER, straggler, "rank", "late_rank", "without_late"),
        (
            names.RUN_BEST_VALUE,
            "Best value of the target's metric.",
            "metric",
            "metric",
            "best_value",
        ),
        (
            names.RUN_LAST_VALUE,
            "Last value of the target's metric.",
            "metric",
            "metric",
            "last_value",
        ),
    )
    for name, help_text, label, label_field, field in labelled:
        values = [((i, str(getattr(f, label_field))), getattr(f, field)) for i, f in runs.items()]
        yield _gauge(name, help_text, ("run_id", label), values)
    phases = [((i, phase), seconds) for i, f in runs.items() for phase, seconds in f.phases.items()]
    help_text = "Mean of the ranks' seconds in a phase."
    yield _gauge(names.RUN_PHASE_SECONDS, help_text, ("run_id", "phase"), phases)
    buckets = [((i, name), seconds) for i, f in runs.items() for name, seconds in f.goodput.items()]
    help_text = "Seconds of all workers in a bucket."
    yield _gauge(names.RUN_GOODPUT, help_text, ("run_id", "bucket"), buckets)


def _failure(run: Run) -> str:
    """Return the last line of the reason, which is the error if a rank wrote one."""
    reason = "; ".join(filter(None, [describe_refused(run), run.reason]))
    return reason.rpartition("\n")[2].strip()[:100]


def _threads(run: Run) -> float | None:
    threads = (run.settings or {}).get("threads")
    return threads if isinstance(threads, int) else None


def _pods(pods: Sequence[Pod]) -> Iterator[Metric]:
    yield _gauge(
        names.POD_INFO,
        "Phase and node of the pod.",
        ("pod", "phase", "node"),
        [((pod.name, pod.phase, pod.node), 1.0) for pod in pods],
    )
    workers = list(Worker.select().where(Worker.name.in_([pod.name for pod in pods])))
    yield _gauge(
        names.POD_HEARTBEAT,
        "Last report of the pod's agent.",
        ("pod",),
        [((worker.name,), worker.seen_at) for worker in workers],
    )
    # For external ranks, the series that the agent and the exporter of a worker pod have.
    nodes = {pod.name: pod.node for pod in pods if pod.external}
    columns = Rank.select(Rank.worker, Rank.run, Rank.rank, Rank.exit_code).join(Run)
    active = Rank.worker.in_([*nodes]), Run.state.in_(ACTIVE_STATES), Rank.attempt == Run.attempt
    ranks = list(columns.where(*active)) if nodes else []
    yield _gauge(
        names.WORKER_INFO,
        "Run and rank of the pod.",
        ("pod", "run_id", "rank"),
        [((row.worker, str(row.run_id), str(row.rank)), 1.0) for row in ranks],
    )
    yield _gauge(
        names.WORKER_RUNNING,
        "1 while the rank's process runs.",
        ("run_id", "rank"),
        [((str(row.run_id), str(row.rank)), row.exit_code is None) for row in ranks],
    )
    recorded = [worker for worker in workers if worker.resources and worker.name in nodes]
    of_pods = [(("", pod.name, "worker", nodes[pod.name]), pod.resources) for pod in recorded]
    labels = ("namespace", "pod", "container", "node")
    yield from _reported(names.RESOURCES, "Resource usage of an external rank.", labels, of_pods)
    reported = {pod.name: pod.resources for pod in recorded}
    of_ranks = [((str(row.run_id), str(row.rank)), reported.get(row.worker, {})) for row in ranks]
    progress = "Progress of an external rank."
    yield from _reported(names.PROGRESS, progress, ("run_id", "rank"), of_ranks)


def _reported(
    series: Sequence[str],
    help_text: str,
    labels: Sequence[str],
    values: Sequence[tuple[Sequence[str], Mapping[str, float]]],
) -> Iterator[Metric]:
    """Yield series of external ranks by labels; names that end with _total are counters."""
    for name in series:
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = kind(name, help_text, labels=labels)
        for label_values, usage in values:
            if name in usage:
                family.add_metric(label_values, usage[name])
        yield family
