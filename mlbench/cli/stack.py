"""``mlbench up``, ``down`` and ``demo``: the local stack."""

import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlsplit

import httpx
import typer
from rich.console import Console

from mlbench.cli.common import JsonOption, UsageError, connected, err, out, print_outcome, warn
from mlbench.cli.request import make_name
from mlbench.cli.run import run_and_show
from mlbench.cli.run_tables import page_url, prometheus_url, warn_of_prometheus
from mlbench.client import ApiClient
from mlbench.contract import names
from mlbench.local import grafana_archive, launch
from mlbench.local.assets import too_old_for_dashboards
from mlbench.local.daemon import on_termination
from mlbench.local.grafana_server import NONE_FOUND
from mlbench.local.home import Home, StackConnection
from mlbench.local.stack_services import LOOPBACK, Listen


def up(
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of the API.", show_default="a free port near 8000"
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address of the API; 0.0.0.0 means all addresses of this machine.")
    ] = LOOPBACK,
    prometheus_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port of Prometheus.",
            show_default="the port of the last start",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=16, help="Idle workers to keep.", show_default="2")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once the stack is ready.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Start the local stack: Prometheus, master, exporter, workers and Grafana."""
    home = Home.from_environ()
    if os.environ.get(names.ENV_URL):
        warn(f"${names.ENV_URL} is set: other commands use the master there, not this stack")
        if os.environ.get(names.ENV_PROMETHEUS_URL):
            warn(f"${names.ENV_PROMETHEUS_URL} belongs to that master: this stack does not use it")
    if launch.running_supervisor(home) is not None:
        connection = launch.wait_until_ready(home)
        with ApiClient.from_connection(connection) as client:
            idle = client.get_info().result().value.workers
        differences, running_port = [], urlsplit(connection.url).port
        if workers not in {None, idle}:
            differences.append(f"--workers {idle} (got {workers})")
        if port not in {None, running_port}:
            differences.append(f"--port {running_port} (got {port})")
        if differences:
            raise UsageError(
                f"a stack is already running with {' and '.join(differences)}. "
                "Run `mlbench down` first to change it."
            )
        _show("already running", connection, as_json=json)
        return
    if os.environ.get(names.ENV_DATABASE_URL):
        warn(f"${names.ENV_DATABASE_URL} is set: runs are stored there, not in {home.root}")
    idle, listen = workers or 2, Listen(host, port, prometheus_port)
    if not listen.is_local:
        warn(f"--host {host}: other machines can reach the API, without TLS; they need its token")
    if detach:
        _show("running", launch.start_detached(home, idle, listen), as_json=json)
        return
    launch.run_in_front(
        home, idle, listen, on_ready=lambda connection: _show("running", connection, as_json=json)
    )


def down(json: JsonOption = False) -> None:
    """Stop the local stack."""
    was_running = launch.stop(Home.from_environ())
    outcome = "stopped" if was_running else "no stack was running"
    print_outcome({"stopped": was_running}, outcome, as_json=json)


def demo(
    benchmark: Annotated[
        str, typer.Argument(metavar="[BENCHMARK]", help="Benchmark to run.")
    ] = "digits",
    workers: Annotated[int, typer.Option(min=1, max=16, help="Number of workers.")] = 2,
) -> None:
    """Start the stack, run a benchmark, and show its result.

    In a terminal, the stack runs until Ctrl-C; otherwise it stops at the end.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that the stack is stopped
    home = Home.from_environ()
    was_running = launch.running_supervisor(home) is not None
    if was_running:
        connection = launch.wait_until_ready(home)
    else:
        err.print("Starting Prometheus, master, controller, exporter and workers…")
        connection = launch.start_detached(home, workers)
    err.print(_pages_line(connection, err), soft_wrap=True)
    err.print(_grafana_line(connection), soft_wrap=True)
    code = 1
    try:
        with connected(connection) as client:
            submitted = client.create_run(
                make_name(benchmark), workers, None, None, benchmark=benchmark
            ).result()
            code = run_and_show(client, connection, submitted.value, stack_stays=was_running)
        if not was_running and sys.stdout.isatty() and code == 0:
            end = threading.Event()
            on_termination(end.set)
            _show("still running; Ctrl-C stops it", connection, as_json=False)
            # With a timeout, because a signal just before an endless wait would not end it.
            while not end.wait(1.0):
                pass
    finally:
        if not was_running:
            err.print("Stopping the stack…")
            launch.stop(home)
    raise typer.Exit(code)


def _show(state: str, connection: StackConnection, *, as_json: bool) -> None:
    existing = "  (not started by the stack)" if connection.existing_prometheus else ""
    fields = {
        "state": state,
        "url": connection.url,
        "web_url": page_url(connection),
        "prometheus_url": prometheus_url(connection),
        "grafana_url": connection.grafana_url,
    }
    print_outcome(
        fields,
        f"The stack is {state}.",
        _pages_line(connection, out),
        f"  API         {connection.url}/api/runs/",
        f"  Prometheus  {prometheus_url(connection)}{existing}",
        "" if as_json else _grafana_line(connection),
        as_json=as_json,
    )
    warn_of_prometheus(connection)


def _pages_line(connection: StackConnection, console: Console) -> str:
    hint = "" if console.is_terminal else "  (`mlbench open` signs in)"
    return f"  Web pages   {page_url(connection, console=console)}{hint}"


def _grafana_line(connection: StackConnection) -> str:
    if connection.grafana_url is None:
        if grafana_archive.is_being_installed(Home.from_environ()):
            return "  Grafana: being installed; the next `mlbench up` or `make run` starts it"
        return f"  Grafana: {NONE_FOUND}"
    line = f"  Grafana     {connection.grafana_url}"
    health = None
    with suppress(httpx.HTTPError, ValueError):
        # Without a proxy, which could not reach this machine.
        url = f"{connection.grafana_url}/api/health"
        response = httpx.get(url, timeout=1.0, trust_env=False)
        health = response.json() if response.is_success else None
    if not isinstance(health, dict) and connection.existing_grafana:
        return f"{line} (does not respond)"
    if not isinstance(health, dict):
        log_file = Home.from_environ().logs / "grafana.log"
        return f"{line} (still starting, or see {log_file})"
    fault = too_old_for_dashboards(health)
    return f"{line} ({fault})" if fault else line
