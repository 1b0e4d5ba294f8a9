"""``mlbench profile``: what a rank spends its time on."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from mlbench.cli.common import (
    FAILED,
    JsonOption,
    RunArgument,
    connected_to,
    err,
    out,
    print_json,
    writing,
)
from mlbench.client import ApiClient
from mlbench.contract.profiles import MOST_SECONDS, RankProfile
from mlbench.contract.records import Run

_LOOK_SECONDS = 0.5
_FIGURES = ("self", "total", "calls")


def profile(
    wanted: RunArgument,
    rank: Annotated[int, typer.Option(min=0, help="Rank to profile.")] = 0,
    seconds: Annotated[int, typer.Option(min=1, max=MOST_SECONDS, help="Duration in seconds.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Also write the profile to this file, compressed by gzip.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Profile a rank with PyTorch's profiler or py-spy.

    This slows down the rank and marks the run as disturbed.
    """
    with connected_to(wanted) as (client, run):
        asked = client.ask_profile(run.id, rank=rank, seconds=seconds).result().value
        while not asked.done:
            time.sleep(_LOOK_SECONDS)
            profiles = client.get_profiles(run.id).result().value
            asked = next((profile for profile in profiles if profile.id == asked.id), asked)
        if output is not None and asked.file:
            _save(client, run, asked, output)
    if json:
        print_json(asked.to_fields())
    elif not asked.problem:
        _show(run, asked)
    if asked.problem:
        err.print(f"mlbench: {asked.problem}", soft_wrap=True)
        raise typer.Exit(FAILED)


def _save(client: ApiClient, run: Run, found: RankProfile, target: Path) -> None:
    files = client.get_files(run.id, attempt=found.attempt).result().value
    [file] = [one for one in files if (one.rank, one.name) == (found.rank, found.file)]
    with writing(target), target.open("wb") as opened:
        client.download_file(run.id, file, opened)


def _show(run: Run, found: RankProfile) -> None:
    name = Column("operator" if found.tool == "pytorch" else "function", overflow="fold")
    table = Table(name, *(Column(one, justify="right") for one in _FIGURES), box=None)
    for one in found.operators:
        calls = "" if one.calls is None else f"{one.calls:,}"
        own, total = f"{one.self_seconds:.3f} s", f"{one.total_seconds:.3f} s"
        table.add_row(one.name, own, total, calls)
    out.print(table)
    out.print(f"{found.file}: stored with run {run.id}, shown on its page", soft_wrap=True)
