"""Progress of a run, and its firing alerts."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from mlbench.cli.common import Value, err
from mlbench.client import ApiClient
from mlbench.client.transport import Response
from mlbench.contract import figures, names
from mlbench.contract.errors import ApiError, MLBenchError, NoResponseError
from mlbench.contract.humanize import count
from mlbench.contract.metric_titles import metric_title
from mlbench.contract.records import Alert, Run, Series
from mlbench.contract.series import split_name

_REFRESH_SECONDS = 0.3
# Longest outage of a component to wait for; the supervisor restarts it sooner.
_AWAY_SECONDS = 60.0
_UNAVAILABLE = HTTPStatus.SERVICE_UNAVAILABLE


# --- Alerts ---


@dataclass
class AlertWatch:
    """Alerts of one run, read at most every 2 s; empty while Prometheus is unreachable."""

    client: ApiClient
    run_id: int
    _read_at: float = float("-inf")
    _alerts: Sequence[Alert] = ()

    def read(self) -> Sequence[Alert]:
        """Return the firing alerts, up to 2 s old."""
        if time.monotonic() - self._read_at > 2.0:  # Prometheus evaluates rules every few seconds
            self._alerts = []
            with suppress(MLBenchError):
                alerts = self.client.get_alerts().result().value
                self._alerts = [alert for alert in alerts if alert.run_id == self.run_id]
            self._read_at = time.monotonic()
        return self._alerts


# --- The progress of a run ---


@dataclass(frozen=True)
class LiveProgress:
    """Progress of a run."""

    epoch: int | None
    loss: float | None
    accuracy: float | None
    samples_per_second: float | None
    """Throughput of all ranks in training time; None before the end of the first epoch."""
    seconds: float


def progress(run: Run, series: Series, now: datetime) -> LiveProgress:
    """Return the progress of a run from the last value of each of its series."""
    last = last_numbers(series)

    def first_rank(metric: str | None) -> float | None:
        return last[metric][0] if metric in last else None

    epoch, loss = first_rank(names.EPOCH), first_rank(names.loss_among(last))
    train_seconds, samples = last.get(names.TRAIN_SECONDS, []), sum(last.get(names.SAMPLES, []))
    measured = samples and sum(train_seconds)
    began = datetime.fromisoformat(run.started_at or run.created_at)
    return LiveProgress(
        epoch=None if epoch is None or not math.isfinite(epoch) else round(epoch),
        loss=loss,
        accuracy=first_rank(run.target.metric if run.target else None),
        samples_per_second=samples * len(train_seconds) / sum(train_seconds) if measured else None,
        seconds=(now - began).total_seconds(),
    )


def last_numbers(series: Series) -> dict[str, list[float]]:
    """Return the last numbers of each metric by rank; a series without a rank comes first."""
    numbers: dict[str, dict[int, float]] = {}
    for name, points in series.items():
        metric, rank = split_name(name)
        for point in points:
            with suppress(ValueError):  # a text
                numbers.setdefault(metric, {})[int(rank or -1)] = point.number
    return {metric: [value for _, value in sorted(numbers[metric].items())] for metric in numbers}


def follow(client: ApiClient, run: Run, *, quiet: bool) -> Run:
    """Show a run and its alerts until it has ended, and return it.

    A capable terminal is redrawn in place; otherwise a line is printed for each epoch.
    """
    watch, lines, spinner = AlertWatch(client, run.id), _Lines(), Spinner("dots")
    in_place = err.is_terminal and not err.is_dumb_terminal and not quiet
    if not in_place and not quiet:
        err.print(f"run {run.id} ({run.title}) on {count(run.num_workers, 'worker')}")
    live = Live(console=err, refresh_per_second=4, transient=True)
    began = time.monotonic()
    with live if in_place else nullcontext():
        while run.active:
            # Polling takes CPU time from the measured run, so the interval grows with its age.
            age = time.monotonic() - began
            time.sleep(min(max(_REFRESH_SECONDS, age / 10), 1.5))
            run = patiently(client.get_run, run.id)
            if quiet:
                continue
            now = progress(run, read_last_values(client, run), datetime.now(UTC))
            alerts = watch.read()
            if in_place:
                workers = count(run.num_workers, "worker")
                spinner.update(text=f"run {run.id} ({run.title}) on {workers}: {_phase(run, now)}")
                table = Table.grid(padding=(0, 2))
                table.add_row(*_cells(run, now))
                parts: list[RenderableType] = [spinner, table]
                if run.target and now.accuracy is not None and not run.target.lower_is_better:
                    parts.append(ProgressBar(run.target.value, now.accuracy, width=24))
                parts += [Text(_alert_line(alert), style="red") for alert in alerts]
                live.update(Group(*parts))
            else:
                lines.show(run, now, alerts)
    return run


def wait_for_count(client: ApiClient, run: Run) -> Run:
    """Wait a few seconds until the samples of an ended run are counted, and return the run."""
    # An ended run is counted within a second or two, unless Prometheus is away.
    deadline = time.monotonic() + 5.0
    while run.delivery is None and time.monotonic() < deadline:
        time.sleep(_REFRESH_SECONDS)
        run = patiently(client.get_run, run.id)
    return run


def patiently(
    request: Callable[..., Future[Response[Value]]],
    *arguments: object,
    seconds: float = _AWAY_SECONDS,
) -> Value:
    """Send a request of the client until the master responds, and return the value.

    NoResponseError and ApiError 503 are raised after ``seconds``, other refusals at once.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return request(*arguments).result().value
        except (NoResponseError, ApiError) as error:
            may_pass = getattr(error, "status", _UNAVAILABLE) == _UNAVAILABLE
            if not may_pass or time.monotonic() > deadline:
                raise
        time.sleep(_REFRESH_SECONDS)


def read_last_values(client: ApiClient, run: Run) -> Series:
    """Return the last value of each series of a run; empty while they cannot be read."""
    try:
        return client.get_run_metrics(run.id, last_n=1).result().value
    except (NoResponseError, ApiError):
        return {}


@dataclass
class _Lines:
    """Prints a line for each epoch, new alert and change of the reason for waiting."""

    epoch: int | None = None
    waiting: str = ""
    alerts: frozenset[str] = frozenset()

    def show(self, run: Run, now: LiveProgress, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            # By name, because the text of an alert changes while it fires.
            if alert.name not in self.alerts:
                err.print(_alert_line(alert), style="red")
        self.alerts = frozenset(alert.name for alert in alerts)
        if run.waiting != self.waiting:
            self.waiting = run.waiting
            err.print(_phase(run, now), soft_wrap=True)
        if now.epoch != self.epoch:
            self.epoch = now.epoch
            err.print("  ".join(_cells(run, now)))


def _alert_line(alert: Alert) -> str:
    return f"{alert.name}: {alert.text} See {alert.runbook}."


def _phase(run: Run, now: LiveProgress) -> str:
    if run.waiting:
        return f"waiting: {run.waiting}"
    if run.state == "INITIALIZED":
        return "waiting for workers"
    if now.epoch is None:
        return "starting"
    if run.ranks and all(rank.exit_code is not None for rank in run.ranks):
        return "ending"
    return "training"


def _cells(run: Run, now: LiveProgress) -> list[str]:
    cells = [f"epoch {'-' if now.epoch is None else now.epoch}"]
    if now.loss is not None:
        cells.append(f"loss {now.loss:.4f}")
    if run.target:
        cells.append(
            f"{metric_title(run.target.metric)} {figures.number(now.accuracy)} "
            f"(target {run.target.value:g})"
        )
    if now.samples_per_second is not None:
        cells.append(figures.throughput(now.samples_per_second, run.settings))
    return [*cells, f"{now.seconds:.1f} s"]
