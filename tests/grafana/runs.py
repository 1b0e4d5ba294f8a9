"""A real stack in use: a run that has ended, one that goes on, and one that waits."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from master import times
from master.reading.promql import PrometheusClient
from mlbench import ApiClient, names
from mlbench.home import Home
from mlbench.records import Run
from mlbench.results import Result
from mlbench.stack import launch
from tests.conftest import wait_for
from tests.grafana.asking import View
from tests.prometheus.reading import read_rules
from tests.stacks import run_to_end

# How long before and after the runs a view of them reaches: rules are evaluated every 5 s, targets
# scraped every 2 s.
_MARGIN_SECONDS = 8.0


@dataclass(frozen=True)
class Used:
    """A stack whose Prometheus knows all there is to see of the runs."""

    prometheus: PrometheusClient
    finished: View
    """The time of the run that has ended."""
    day: View
    """The same run in a whole day: shorter than the time between two points of a graph."""
    result: Result
    """Of the same run, as the API computes it."""
    active: View
    """The time of the run that goes on, up to now."""


@contextmanager
def used_stack(binary: Path, root: Path) -> Iterator[Used]:
    """Start a stack, have it used, and stop it at the end."""
    home = Home(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROMETHEUS", str(binary))
        connection = launch.start_detached(home, workers=2, port=None)
    prometheus = PrometheusClient(connection.prometheus_url or "")
    try:
        with ApiClient.from_home(home) as client:
            yield _use(client, prometheus)
    finally:
        prometheus.close()
        launch.stop(home)


def _use(client: ApiClient, prometheus: PrometheusClient) -> Used:
    # Some 25 epochs, so that the recording rules have several looks at it on any machine.
    ended = run_to_end(client, _order_digits(client, "ended", {"learning_rate": "0.001"}), 240)
    assert ended.state == "FINISHED", ended.reason
    finished = _view("finished", ended, _moment(ended.finished_at))
    day = View("a day", finished.last - 86400, finished.last, finished.run_id)
    # At the end of that view no run is active.
    wait_for(lambda: time.time() > finished.last, what="the time of the next run begins")
    # It learns too slowly to reach its goal: it trains until the stack is stopped.
    endless = {"learning_rate": "1e-9", "epochs": "100000"}
    active = _order_digits(client, "active", endless)
    client.create_run("waiting", 2, None, benchmark="steps", queue=True).result()
    wait_for(lambda: _all_is_seen(prometheus, active), 90, "the active run is seen")
    view = _view("active", active, time.time() - _MARGIN_SECONDS)
    return Used(prometheus, finished, day, client.get_result(ended.id).result().value, view)


def _order_digits(client: ApiClient, name: str, args: dict[str, str]) -> Run:
    # A thread each: several would wait for each other on a machine that has other work.
    order = client.create_run(name, 2, num_cpus=1, benchmark="digits", args=args)
    return order.result().value


def _all_is_seen(prometheus: PrometheusClient, run: Run) -> bool:
    """Return whether the run had ended an epoch, and every recording rule known of it, a while ago.

    So a graph of the run has a point of each, wherever its steps fall.
    """
    before = time.time() - _MARGIN_SECONDS
    epoch_ended = f'{names.RUN_METRIC}{{run_id="{run.id}",metric="{names.VAL_ACCURACY}"}}'
    # This machine may have no GPU.
    recorded = [
        f'{{__name__="{rule}",run_id="{run.id}"}}'
        for rule in read_rules("record")
        if "gpu" not in rule
    ]
    return all(prometheus.query(query, before) for query in (epoch_ended, *recorded))


def _view(name: str, run: Run, until: float) -> View:
    first, last = _moment(run.created_at) - _MARGIN_SECONDS, until + _MARGIN_SECONDS
    return View(name, first, last, str(run.id))


def _moment(text: str | None) -> float:
    assert text is not None
    return times.parse(text) / 1e6
