"""``mlbench grafana``: install Grafana, or push the dashboards to a running one."""

import os
import subprocess
import sys
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from mlbench.cli.command import Command
from mlbench.cli.common import JsonOption, UsageError, err, out, print_json, print_outcome
from mlbench.contract import names
from mlbench.contract.distribution import how_to_install
from mlbench.contract.errors import NotConnectedError
from mlbench.local import grafana_archive
from mlbench.local.assets import grafana_folder
from mlbench.local.discovery import find_connection
from mlbench.local.grafana_server import find_grafana
from mlbench.local.home import Home

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command(cls=Command)
def install(
    mirror: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Alternative download address of the archive."),
    ] = None,
    background: Annotated[
        bool,
        typer.Option(
            "--background",
            help="Return at once; do nothing if Grafana is installed.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Download Grafana into $MLBENCH_HOME; the next `mlbench up` starts it.

    The archive is the official build for Linux, about 200 MB, verified by its SHA-256.
    """
    home, archive = Home.from_environ(), grafana_archive.official_archive()
    if mirror:
        archive = replace(archive, url=mirror)
    if background:
        if not find_grafana(home=home):
            # A process that outlives this one, and writes to a log.
            home.make()
            home.logs.mkdir(exist_ok=True)
            again = ("mlbench", "grafana", "install", "--mirror", archive.url)
            with (home.logs / "grafana-install.log").open("ab") as log:
                subprocess.Popen(
                    [sys.executable, "-P", "-m", *again],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        return
    was_installed = grafana_archive.is_installed(home, archive)
    if not was_installed:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        with Progress(*columns, console=err, disable=not err.is_terminal) as progress:
            task = progress.add_task(f"Grafana {grafana_archive.VERSION}", total=None)
            grafana_archive.install(
                home,
                archive,
                lambda received, total: progress.update(
                    task, completed=received, total=total or None
                ),
            )
    state = "was already installed" if was_installed else "is installed"
    folder = str(home.grafana_program)
    print_outcome(
        {"version": grafana_archive.VERSION, "folder": folder, "installed": not was_installed},
        f"Grafana {grafana_archive.VERSION} {state} in {folder}.",
        "`mlbench up` starts it with the dashboards, after `mlbench down` if a stack is running.",
        as_json=json,
    )


@app.command(cls=Command)
def push(
    url: Annotated[
        str, typer.Option(envvar=names.ENV_GRAFANA_URL, help="Address of Grafana's home page.")
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
            help="Address at which Grafana reaches Prometheus.",
            show_default="the Prometheus of the running stack",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Push folder, Prometheus data source and dashboards to a Grafana.

    Parts that are up to date are left unchanged.

    $MLBENCH_SCRAPE_INTERVAL is the scrape interval of that Prometheus, 2s by default.
    """
    if prometheus_url is None:
        try:
            connection = find_connection()
        except NotConnectedError as error:
            raise UsageError(f"--prometheus-url: required: {error}") from error
        prometheus_url = None if connection.elsewhere else connection.prometheus_url
        if prometheus_url is None:
            raise UsageError(
                "--prometheus-url: required: the Prometheus address of the master at "
                f"{connection.url} is unknown"
            )
    try:
        from mlbench.local.grafana_api import Grafana  # noqa: PLC0415 - its packages are optional
    except ModuleNotFoundError as error:
        raise UsageError(f"packages are missing. Run {how_to_install('master')}.") from error
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
            out.print("Everything was up to date; nothing was changed.")
    provisioned = [uid for uid, outcome in pushed.dashboards.items() if outcome == "provisioned"]
    if provisioned:
        raise UsageError(
            f"not pushed: {', '.join(provisioned)}: managed by Grafana's provisioning files. "
            "Update these files, or remove the dashboards from them."
        )
