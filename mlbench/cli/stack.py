"""``mlbench up``, ``down`` and ``demo``: the local stack."""

import os
import signal
import sys
import threading
from typing import Annotated

import typer

from mlbench import names
from mlbench.cli.common import (
    JsonOption,
    connected,
    err,
    errors_as_exit_codes,
    out,
    print_json,
    warn,
)
from mlbench.cli.order import Order, make_name
from mlbench.cli.output import api_url, page_url
from mlbench.cli.run import run_and_show
from mlbench.home import Connection, Home
from mlbench.signals import on_termination
from mlbench.stack import launch
from mlbench.stack.grafana import NONE_FOUND
from mlbench.stack.services import answers

WorkersOption = Annotated[int, typer.Option(min=1, max=16, help="Idle workers to keep.")]
PortOption = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Port of the API; a free one near 8000.")
]


def up(
    port: PortOption = None,
    workers: WorkersOption = 2,
    detach: Annotated[bool, typer.Option("--detach", help="Return once it is ready.")] = False,
    json: JsonOption = False,
) -> None:
    """Start Prometheus, master, controller, exporter, workers, and Grafana if there is one."""
    home = Home.from_environ()
    with errors_as_exit_codes():
        if os.environ.get(names.ENV_URL):
            warn(
                f"${names.ENV_URL} is set: the other commands talk to the master there, "
                "not to this stack"
            )
        if launch.running_supervisor(home) is not None:
            _show("already running", launch.wait_until_ready(home), as_json=json)
            return
        if detach:
            _show("running", launch.start_detached(home, workers, port), as_json=json)
            return
        launch.run_in_front(
            home, workers, port, on_ready=lambda found: _show("running", found, as_json=json)
        )


def down(json: JsonOption = False) -> None:
    """Stop the local stack."""
    with errors_as_exit_codes():
        was_running = launch.stop(Home.from_environ())
    if json:
        print_json({"stopped": was_running})
    else:
        out.print("stopped" if was_running else "no stack was running")


def demo(
    benchmark: Annotated[
        str, typer.Argument(metavar="[BENCHMARK]", help="What to run.")
    ] = "digits",
    workers: Annotated[int, typer.Option(min=1, max=16, help="Workers to run it on.")] = 2,
) -> None:
    """Start the stack if it is not running, run a benchmark, and show the result.

    In a terminal the stack stays up until Ctrl-C; otherwise it is stopped at the end.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that the stack is stopped
    home = Home.from_environ()
    was_running = launch.running_supervisor(home) is not None
    with errors_as_exit_codes():
        if was_running:
            connection = launch.wait_until_ready(home)
        else:
            err.print("Starting Prometheus, master, controller, exporter and workers…")
            connection = launch.start_detached(home, workers, None)
        err.print(_pages_line(connection), soft_wrap=True)
        err.print(_grafana_line(connection), soft_wrap=True)
    code = 1
    try:
        with connected(connection) as client:
            order = Order(title=benchmark, benchmark=benchmark)
            ordered = order.place(client, make_name(benchmark), workers, None, queue=False)
            code = run_and_show(client, connection, ordered, stack_stays=was_running)
        if not was_running and sys.stdout.isatty() and code == 0:
            end = threading.Event()
            on_termination(end.set)
            _show("still up, Ctrl-C stops it", connection, as_json=False)
            end.wait()
    finally:
        if not was_running:
            err.print("Stopping the stack…")
            with errors_as_exit_codes():
                launch.stop(home)
    raise typer.Exit(code)


def _show(state: str, connection: Connection, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "state": state,
                "url": connection.url,
                "web_url": page_url(connection),
                "prometheus_url": connection.prometheus_url,
                "grafana_url": connection.grafana_url,
            }
        )
        return
    out.print(f"The stack is {state}.")
    out.print(_pages_line(connection), soft_wrap=True)
    out.print(f"  API         {api_url(connection)}/api/runs/", soft_wrap=True)
    out.print(f"  Prometheus  {connection.prometheus_url}", soft_wrap=True)
    out.print(_grafana_line(connection), soft_wrap=True)


def _pages_line(connection: Connection) -> str:
    return f"  Web pages   {page_url(connection)}"


def _grafana_line(connection: Connection) -> str:
    if connection.grafana_url is None:
        return f"  Grafana: {NONE_FOUND}"
    if answers(connection.grafana_url.removeprefix("http://"), "/api/health", 1.0):
        return f"  Grafana     {connection.grafana_url}"
    log_file = Home.from_environ().logs / "grafana.log"
    return f"  Grafana     {connection.grafana_url} (still starting, or see {log_file})"
