"""``mlbench grafana push``: folder, data source and dashboards for a Grafana of yours."""

import os
from dataclasses import asdict
from typing import Annotated

import typer

from mlbench import names
from mlbench.assets import grafana_folder
from mlbench.cli.command import Command
from mlbench.cli.common import JsonOption, UsageError, out, print_json
from mlbench.discovery import find_connection
from mlbench.distribution import how_to_install
from mlbench.errors import NotConnectedError

app = typer.Typer(help="Bring dashboards to a Grafana.", no_args_is_help=True, add_completion=False)
# With one command alone, typer would leave its name out.
app.callback()(lambda: None)


@app.command(cls=Command)
def push(
    url: Annotated[
        str, typer.Option(envvar=names.ENV_GRAFANA_URL, help="Address of Grafana's first page.")
    ],
    token: Annotated[
        str,
        typer.Option(
            envvar=names.ENV_GRAFANA_TOKEN,
            help="Token of a service account with the role Admin, or user:password.",
        ),
    ],
    prometheus_url: Annotated[
        str | None,
        typer.Option(
            envvar=names.ENV_GRAFANA_PROMETHEUS_URL,
            help="How Grafana reaches Prometheus; that of the running stack by default.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Bring folder, Prometheus data source and dashboards to a Grafana.

    What is as it should be is left alone.

    $MLBENCH_SCRAPE_INTERVAL is that Prometheus's scrape interval, 2s by default.
    """
    prometheus_url = prometheus_url or _stack_prometheus()
    try:
        from mlbench.grafana import Grafana  # noqa: PLC0415 - its packages are optional
    except ModuleNotFoundError as error:
        raise UsageError(f"a part is missing: run {how_to_install('master')}") from error
    interval = os.environ.get(names.ENV_SCRAPE_INTERVAL) or names.DEFAULT_SCRAPE_INTERVAL
    with Grafana(url, token) as grafana:
        pushed = grafana.push(grafana_folder() / "dashboards", prometheus_url, interval)
    if json:
        print_json(asdict(pushed))
    else:
        out.print(f"folder MLBench: {pushed.folder}")
        out.print(f"data source MLBench Prometheus: {pushed.data_source}")
        for uid, outcome in pushed.dashboards.items():
            out.print(f"dashboard {uid}: {outcome}")
        if {pushed.folder, pushed.data_source, *pushed.dashboards.values()} == {"unchanged"}:
            out.print("Nothing was changed: all of it was up to date.")
    left = [uid for uid, outcome in pushed.dashboards.items() if outcome == "provisioned"]
    if left:
        raise UsageError(
            f"not pushed: {', '.join(left)}: they come from Grafana's provisioning files: "
            "update these files, or take the dashboards out of them"
        )


def _stack_prometheus() -> str:
    try:
        connection = find_connection()
    except NotConnectedError as error:
        raise UsageError(f"{error}, or name a Prometheus with --prometheus-url") from error
    if connection.elsewhere or connection.prometheus_url is None:
        raise UsageError(
            f"how Grafana reaches the Prometheus of the master at {connection.url} is not known "
            "here: say it with --prometheus-url"
        )
    return connection.prometheus_url
