"""``mlbench files``: output files that ranks wrote to ``$MLBENCH_OUTPUT``."""

import hashlib
import io
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
from mlbench.contract.output import is_name


def files(
    run_name: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Download the files to DIR/rank-RANK/NAME."
        ),
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(help="Attempt of the run.", show_default="the latest")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List or download the output files of a run."""
    with open_run(run_name) as (client, run):
        listed = client.get_files(run.id, attempt=attempt).result().value
        damaged = []
        if output is not None:
            for file in listed:
                if file.left:
                    continue
                content = io.BytesIO()
                client.download_file(run.id, file, content)
                data = content.getvalue()
                # A name from another master could point outside of the folder.
                if not is_name(file.name) or hashlib.sha256(data).hexdigest() != file.sha256:
                    damaged.append(file)
                    continue
                target = output / f"rank-{file.rank}" / file.name
                with writing(output):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data)
    if json:
        print_json([file.to_fields() for file in listed])
    elif not listed:
        out.print(f"run {run.id} has no output files in $MLBENCH_OUTPUT")
    else:
        size = Column("size (B)", justify="right")
        table = Table("rank", Column("file", overflow="fold"), size, "SHA-256", box=None)
        for file in listed:
            digest = (file.sha256 or "")[:12]
            table.add_row(str(file.rank), file.name, f"{file.size:,}", digest)
        out.print(table)
        for file in listed:
            if file.left:
                out.print(f"{file.name} stays at {file.path}: {file.left}", soft_wrap=True)
    for file in damaged:
        err.print(f"mlbench: {file.name} of rank {file.rank} is damaged and was not written")
    if damaged:
        raise typer.Exit(FAILED)
