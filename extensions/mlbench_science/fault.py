"""``mlbench fault``: fault injection by hand."""

import time
from typing import Annotated

import typer

from mlbench.cli.common import JsonOption, RunArgument, open_run, out, print_json


def fault(
    run_name: RunArgument,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="Fault: kill, stop:5s, slow:50%, slow:50%:10s or network:3s."
        ),
    ],
    rank: Annotated[int, typer.Option(min=0, help="Rank to inject it into.")] = 0,
    json: JsonOption = False,
) -> None:
    """Inject a fault into a rank of an active run.

    It takes effect within a few seconds. The run restarts if it has restarts left, and its result
    is marked.
    """
    with open_run(run_name) as (client, run):
        event = client.inject_fault(run.id, kind, rank=rank).result().value
        while event.text.endswith("is due"):
            time.sleep(0.5)
            events = client.get_run_events(run.id).result().value
            event = [e for e in events if e.kind == "fault" and "by hand" in e.text][-1]
    if json:
        print_json(event.to_fields())
    else:
        out.print(f"run {run.id} ({run.title}): {event.text}")
