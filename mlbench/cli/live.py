"""The live view of a run: its epoch, loss, accuracy, speed and time, until it ends."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from mlbench import names
from mlbench.cli.alerts import Alert, AlertWatch
from mlbench.cli.common import err
from mlbench.cli.latest import latest, latest_count, samples_per_second
from mlbench.client import ApiClient, ApiError, NoAnswerError, Run, Series
from mlbench.report import figures

_REFRESH_SECONDS = 0.3
# How long a part of the stack may be away: the supervisor starts it again sooner.
AWAY_SECONDS = 60.0
_UNAVAILABLE = 503

Value = TypeVar("Value")


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    epoch: int | None
    step: int | None
    loss: float | None
    accuracy: float | None
    samples_per_second: float | None
    seconds: float


def follow(client: ApiClient, run: Run, watch: AlertWatch, *, quiet: bool) -> Run:
    """Show a run and its alerts until it has ended, and return it.

    On a terminal the view is redrawn in place; otherwise there is a line for each epoch.
    """
    if quiet:
        return _follow_quietly(client, run)
    show = _follow_in_place if err.is_terminal else _follow_in_lines
    return show(client, run, watch)


def progress(run: Run, series: Series, now: datetime) -> Progress:
    """Return how far a run is, from the last value of each series."""
    began = datetime.fromisoformat(run.started_at or run.created_at)
    return Progress(
        epoch=latest_count(series, names.EPOCH),
        step=latest_count(series, names.STEP),
        loss=latest(series, names.TRAIN_LOSS),
        accuracy=latest(series, run.goal.metric) if run.goal else None,
        samples_per_second=samples_per_second(series),
        seconds=(now - began).total_seconds(),
    )


def patiently(ask: Callable[[], Value], seconds: float = AWAY_SECONDS) -> Value:
    """Return what ``ask`` returns, also where a part of the stack is just being started again.

    Raises:
        NoAnswerError, ApiError: it was away for longer than ``seconds``, or refused.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except (NoAnswerError, ApiError) as error:
            may_pass = isinstance(error, NoAnswerError) or error.status == _UNAVAILABLE
            if not may_pass or time.monotonic() > deadline:
                raise
        time.sleep(_REFRESH_SECONDS)


def _observe(client: ApiClient, run: Run) -> tuple[Run, Progress]:
    now = patiently(lambda: client.get_run(run.id).result().value)
    return now, progress(now, _last_values(client, run), datetime.now(UTC))


def _last_values(client: ApiClient, run: Run) -> Series:
    """Return the last value of each series; none while they cannot be read: the run goes on."""
    try:
        return client.get_run_metrics(run.id, last_n=1).result().value
    except (NoAnswerError, ApiError):
        return {}


def _follow_quietly(client: ApiClient, run: Run) -> Run:
    run_id = run.id
    while run.active:
        time.sleep(_REFRESH_SECONDS)
        run = patiently(lambda: client.get_run(run_id).result().value)
    return run


def _follow_in_lines(client: ApiClient, run: Run, watch: AlertWatch) -> Run:
    err.print(f"run {run.id} ({run.name}) on {_workers(run)}")
    shown = None
    waited_for = ""
    told: set[str] = set()
    while run.active:
        time.sleep(_REFRESH_SECONDS)
        run, now = _observe(client, run)
        # By name, as the text of one that goes on changes.
        alerts = {alert.name: alert for alert in watch.look()}
        for name in alerts.keys() - told:
            err.print(_tell(alerts[name]), style="red")
        told = {*alerts}
        if (run.waiting or "") != waited_for:
            waited_for = run.waiting or ""
            err.print(_phase(run, now), soft_wrap=True)
        if now.epoch != shown:
            shown = now.epoch
            err.print("  ".join(_cells(run, now)))
    return run


def _follow_in_place(client: ApiClient, run: Run, watch: AlertWatch) -> Run:
    spinner = Spinner("dots")
    with Live(console=err, refresh_per_second=8, transient=True) as live:
        while run.active:
            run, now = _observe(client, run)
            told = (Text(_tell(alert), style="red") for alert in watch.look())
            live.update(Group(_draw(run, now, spinner), *told))
            time.sleep(_REFRESH_SECONDS)
    return run


def _draw(run: Run, now: Progress, spinner: Spinner) -> RenderableType:
    spinner.update(text=f"run {run.id} ({run.name}) on {_workers(run)}: {_phase(run, now)}")
    table = Table.grid(padding=(0, 2))
    table.add_row(*_cells(run, now))
    if run.goal is None or now.accuracy is None or run.goal.lower_is_better:
        return Group(spinner, table)
    return Group(spinner, table, ProgressBar(run.goal.value, now.accuracy, width=24))


def _tell(alert: Alert) -> str:
    return f"{alert.name}: {alert.text} See {alert.runbook}."


def _workers(run: Run) -> str:
    return "1 worker" if run.num_workers == 1 else f"{run.num_workers} workers"


def _phase(run: Run, now: Progress) -> str:
    if run.waiting:
        return f"waiting: {run.waiting}"
    if run.state == "INITIALIZED":
        return "waiting for workers"
    if now.epoch is None:
        return "starting"
    if run.ranks and all(rank.exit_code is not None for rank in run.ranks):
        return "delivering"
    return "training"


def _cells(run: Run, now: Progress) -> list[str]:
    cells = [
        "epoch -" if now.epoch is None else f"epoch {now.epoch}",
        "loss -" if now.loss is None else f"loss {now.loss:.4f}",
    ]
    if run.goal:
        cells.append(f"{run.goal.metric} {figures.number(now.accuracy)} (goal {run.goal.value:g})")
    if now.samples_per_second is not None:
        cells.append(f"{now.samples_per_second:,.0f} samples/s")
    return [*cells, f"{now.seconds:.1f} s"]
