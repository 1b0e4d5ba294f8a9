"""``mlbench record`` and ``mlbench ship``: the agent beside a command that others start."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mlbench.contract import names
from mlbench.local.discovery import find_connection


def record(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="What to run.")],
    name: Annotated[str, typer.Option(help="Of the run; by default the program's.")] = "",
    key: Annotated[
        str, typer.Option(help="What the ranks of one job share, where their launcher says none.")
    ] = "",
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many ranks the job has, where none says it.")
    ] = None,
    hide_command: Annotated[
        bool, typer.Option("--hide-command", help="Record no command line, not even a masked one.")
    ] = False,
) -> None:
    """Run a command that Slurm, torchrun, Kubernetes or a shell starts, and record it.

    Its rank, and which job it is of, come from the environment; alone it is a run of one rank.
    Output, signals and exit code are the command's own, and it never waits for the master. Values
    of options that look like secrets, such as --token, are masked in what is recorded.
    """
    options = {"--name": name, "--key": key, "--workers": str(workers or "")}
    given = [part for option, value in options.items() if value for part in (option, value)]
    _become("mlbench.tracking.recorded", *given, *["--hide-command"] * hide_command, "--", *command)


def ship(
    folder: Annotated[Path, typer.Argument(help="The folder that `mlbench record` named.")],
) -> None:
    """Ship what `mlbench record` could not, as the master was away."""
    connection = find_connection()
    os.environ |= {names.ENV_URL: connection.url, names.ENV_TOKEN: connection.token}
    _become("mlbench_worker.agent.companion", "ship", str(folder))


def _become(module: str, *arguments: str) -> None:
    """Go on as another program, which signals and exit codes reach as they are."""
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])  # noqa: S606
