"""``mlbench profile``: time of a rank by operator or function."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from mlbench.cli.common import (
    FAILED,
    JsonOption,
    RunArgument,
    err,
    open_run,
    out,
    print_json,
    writing,
)
from mlbench.contract.profiles import MAX_SECONDS


def profile(
    run_name: RunArgument,
    rank: Annotated[int, typer.Option(min=0, help="Rank to profile.")] = 0,
    seconds: Annotated[int, typer.Option(min=1, max=MAX_SECONDS, help="Duration in seconds.")] = 5,
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
    with open_run(run_name) as (client, run):
        result = client.ask_profile(run.id, rank=rank, seconds=seconds).result().value
        while not result.done:
            time.sleep(0.5)
            profiles = client.get_profiles(run.id).result().value
            result = next((profile for profile in profiles if profile.id == result.id), result)
        if output is not None and result.file:
            files = client.get_files(run.id, attempt=result.attempt).result().value
            [source] = [f for f in files if (f.rank, f.name) == (result.rank, result.file)]
            with writing(output), output.open("wb") as target:
                client.download_file(run.id, source, target)
    if json:
        print_json(result.to_fields())
    elif not result.problem:
        if result.lines:
            columns = (Column("line", overflow="fold"), Column("time", justify="right"), "mostly")
            table = Table(*columns, box=None)
            for line in result.lines:
                share = f"{100 * line.activity_seconds / (line.seconds or 1):.0f} %"
                table.add_row(line.name, f"{line.seconds:.3f} s", f"{line.activity}, {share}")
            profiled = sum(line.seconds for line in result.lines)
            table.add_row("profiled time of the main thread", f"{profiled:.3f} s")
            out.print(table)
            out.print()
        name = Column("operator" if result.tool == "pytorch" else "function", overflow="fold")
        numbers = (Column(text, justify="right") for text in ("self", "total", "calls"))
        table = Table(name, *numbers, box=None)
        for operator in result.operators:
            calls = "" if operator.calls is None else f"{operator.calls:,}"
            own, total = f"{operator.self_seconds:.3f} s", f"{operator.total_seconds:.3f} s"
            table.add_row(operator.name, own, total, calls)
        out.print(table)
        out.print(f"{result.file}: stored with run {run.id}, shown on its page", soft_wrap=True)
    if result.problem:
        err.print(f"mlbench: {result.problem}", soft_wrap=True)
        raise typer.Exit(FAILED)
