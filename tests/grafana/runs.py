"""A real stack with an ended, an active and a queued run."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.contract.records import Run
from mlbench.contract.results import Result
from mlbench.local.home import Home
from mlbench_master import timestamps
from mlbench_master.reading.promql import PrometheusClient
from tests.conftest import running_stack, wait_for
from tests.support.known import known
from tests.support.panels import View
from tests.support.rules import read_rules
from tests.support.stacks import reload, run_to_end, service, training

# Seconds before a run at which its view begins: rules are evaluated every 5 s, targets are scraped
# every 2 s.
_MARGIN_SECONDS = 8.0
_PARTS = ("prometheus", "master", "controller", "exporter", "workers")


@dataclass(frozen=True)
class Used:
    """A stack whose Prometheus has all series of the runs."""

    prometheus: PrometheusClient
    finished: View
    """Time range of the ended run."""
    day: View
    """The ended run in a whole day, where it is shorter than the step of a graph."""
    result: Result
    """Result of the ended run, from the API."""
    active: View
    """Time range of the active run, up to now."""


@contextmanager
def used_stack(binary: Path, root: Path) -> Iterator[Used]:
    """Start a stack with runs, and stop it at the end."""
    with running_stack(binary, root, MLBENCH_FORK_SERVER="1") as home:
        prometheus = PrometheusClient(home.read_connection().prometheus_url or "")
        with closing(prometheus), ApiClient.from_home(home) as client:
            yield _use(home, client, prometheus)


def _use(home: Home, client: ApiClient, prometheus: PrometheusClient) -> Used:
    wait_for(lambda: _rates_are_known(prometheus), 90, "all parts were scraped twice")
    ended = _order_digits(client, "ended", {"learning_rate": "0.01"})
    _see_values_wait(home, client, prometheus, ended)
    _see_all(home, prometheus, ended)
    ended = run_to_end(client, ended, 240)
    assert ended.state == "FINISHED", ended.reason
    wait_for(lambda: _is_over(prometheus, ended), 90, "the end of the run is seen")
    finished = _view("finished", ended)
    day = View("a day", finished.last - 86400, finished.last, finished.run_id)
    # This run learns too slowly to reach its target, so it trains until the stack is stopped.
    endless = {"learning_rate": "1e-9", "epochs": "100000"}
    active = _order_digits(client, "active", endless)
    client.create_run("waiting", 2, None, benchmark="steps", queue=True).result()
    _see_values_wait(home, client, prometheus, active)
    _see_all(home, prometheus, active)
    wait_for(lambda: _both_train(prometheus, active), 90, "both ranks train again")
    view = _view("active", active)
    _suspend(home)
    wait_for(lambda: _is_past(prometheus, view), 90, "all of its time is seen")
    return Used(prometheus, finished, day, client.get_result(ended.id).result().value, view)


def _order_digits(client: ApiClient, name: str, args: dict[str, str]) -> Run:
    # One thread per worker: several threads would wait for each other on a busy machine.
    order = client.create_run(name, 2, num_cpus=1, benchmark="digits", args=args)
    return order.result().value


def _see_values_wait(home: Home, client: ApiClient, prometheus: PrometheusClient, run: Run) -> None:
    """Suspend the controller until Prometheus has recorded that values of a run wait."""
    wait_for(lambda: reload(client, run).state == "STARTED", what="the run begins")
    waiting = f'{names.RUN_WAITING}{{run_id="{run.id}"}} > 0'
    controller = service(home, "mlbench_master.controller")
    controller.suspend()
    try:
        wait_for(lambda: prometheus.query(waiting), what="values wait")
    finally:
        controller.resume()


def _see_all(home: Home, prometheus: PrometheusClient, run: Run) -> None:
    """Suspend the ranks between epochs until all rules have had values for a while.

    A run of seconds is then long enough on any machine.
    """
    epoch_ended = f'{names.RUN_METRIC}{{run_id="{run.id}",metric="{names.VAL_ACCURACY}"}}'
    wait_for(lambda: prometheus.query(epoch_ended), 90, "an epoch has ended")
    ranks = _suspend(home)
    while not _is_known(prometheus, run, epoch_ended):
        for rank in ranks:
            rank.resume()
        time.sleep(0.1)  # rates need a step between two scrapes, even if an epoch is shorter
        ranks = _suspend(home)
        time.sleep(2)
    for rank in ranks:
        rank.resume()


def _suspend(home: Home) -> list[psutil.Process]:
    """Suspend both ranks, and return their processes."""
    ranks = [process for rank in (0, 1) for process in training(home, rank)]
    for process in ranks:
        process.suspend()
    return ranks


def _both_train(prometheus: PrometheusClient, run: Run) -> bool:
    """Return whether both ranks show a training rate over a graph's shortest interval."""
    return len(prometheus.query(f'rate({names.WORKER_STEPS}{{run_id="{run.id}"}}[8s]) > 0')) == 2


def _rates_are_known(prometheus: PrometheusClient) -> bool:
    """Return whether each part was scraped twice. Some are scraped only every 15 s."""
    twice = (f'sum_over_time(up{{job="{job}"}}[2m]) > 1' for job in _PARTS)
    return all(map(prometheus.query, twice))


def _is_over(prometheus: PrometheusClient, run: Run) -> bool:
    """Return whether Prometheus knows of a run's end, both from the master and from the rules."""
    of = f'run_id="{run.id}"'
    ended = prometheus.query(f"{names.RUN_FINISHED}{{{of}}}")
    state = f'{names.RUN_STATE}{{{of},state="STARTED"}} == 1'
    age = f"run:mlbench_worker_progress:age_seconds{{{of}}}"
    return bool(ended) and not prometheus.query(f"{state} or {age}")


def _is_past(prometheus: PrometheusClient, view: View) -> bool:
    """Return whether all targets and rules have a newer sample than the end of a view."""
    of = f'run_id=~"|{view.run_id}"'
    newest = (f'timestamp({{__name__="{name}",{of}}})' for name in ("up", *read_rules("record")))
    return not any(prometheus.query(f"{time_} <= {view.last}") for time_ in newest)


def _is_known(prometheus: PrometheusClient, run: Run, epoch_ended: str) -> bool:
    """Return whether an epoch's end and all recording rules were known some seconds ago.

    A graph of the run then has a point of each, whatever its step.
    """
    before = time.time() - _MARGIN_SECONDS
    # This machine may have no GPU.
    recorded = [
        f'{{__name__="{rule}",run_id="{run.id}"}}'
        for rule in read_rules("record")
        if "gpu" not in rule
    ]
    return all(prometheus.query(query, before) for query in (epoch_ended, *recorded))


def _view(name: str, run: Run) -> View:
    """Return the time range of a run up to now."""
    return View(name, _moment(run.created_at) - _MARGIN_SECONDS, time.time(), str(run.id))


def _moment(text: str | None) -> float:
    return timestamps.parse(known(text)) / 1e6
