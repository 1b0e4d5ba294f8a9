"""``mlbench record`` and ``mlbench ship``: recording of external jobs."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mlbench.cli import request
from mlbench.contract import names
from mlbench.local.discovery import find_connection
from mlbench.tracking import record_command


def record(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="Command to run.")],
    name: Annotated[
        str, typer.Option(help="Name of the run.", show_default="the program's name")
    ] = "",
    key: Annotated[
        str,
        typer.Option(help="Key shared by the ranks of one job, if the launcher does not set one."),
    ] = "",
    workers: Annotated[
        int | None,
        typer.Option(help="Number of ranks of the job, if the launcher does not set it."),
    ] = None,
    hide_command: Annotated[
        bool,
        typer.Option("--hide-command", help="Do not record the command line, not even masked."),
    ] = False,
    from_stdout: request.FromStdoutOption = False,
) -> None:
    """Record a command started by Slurm, torchrun, Kubernetes or a shell.

    Job and rank come from the environment; without them, the run has one rank. Output, signals and
    exit code of the command are unchanged, and it never waits for the master. Values of options
    that look like secrets, such as --token, are masked in the recorded command line.
    """
    # This signature is the help. `mlbench` gives the arguments to the same parser as the agent's
    # single file, which has no Typer.
    record_command.main(sys.argv[2:])


def ship(
    folder: Annotated[Path, typer.Argument(help="Folder that `mlbench record` printed.")],
) -> None:
    """Send the data that `mlbench record` kept while the master was unreachable."""
    connection = find_connection()
    os.environ |= {names.ENV_URL: connection.url, names.ENV_TOKEN: connection.token}
    # Replace this process, so that signals and exit codes pass through unchanged.
    module = ["-m", "mlbench_worker.agent.sidecar", "ship", str(folder)]
    os.execv(sys.executable, [sys.executable, "-P", *module])  # noqa: S606
