"""``mlbench prune``: delete the runs that ended long ago."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from mlbench.cli.common import JsonOption, UsageError, confirm, connected, print_outcome
from mlbench.contract.humanize import count

_AGE = re.compile(r"([0-9]{1,5})([dw])")
_PAGE = 500


def prune(
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Time since the end of the runs, e.g. 90d or 12w.")
    ],
    keep_archives: Annotated[
        bool,
        typer.Option("--keep-archives", help="Keep the archives, titles, tags and notes."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete runs that ended long ago, except imported runs."""
    age = _AGE.fullmatch(older_than)
    if age is None:
        raise UsageError(
            f"--older-than: must be days or weeks, e.g. 90d or 12w (got {older_than!r})"
        )
    until = datetime.now(UTC) - timedelta(days=int(age[1]) * {"d": 1, "w": 7}[age[2]])
    with connected() as client:
        runs = []
        page = client.get_runs(limit=_PAGE).result().value
        while page:
            runs += [
                run
                for run in reversed(page)
                if not run.origin
                and run.finished_at is not None
                and datetime.fromisoformat(run.finished_at) < until
            ]
            page = client.get_runs(limit=_PAGE, before=page[0].id).result().value
        if runs and not yes:
            newest, oldest = runs[0], runs[-1]
            span = f"from {oldest.id} ({oldest.title}) to {newest.id} ({newest.title})"
            archives = "" if keep_archives else " and archives"
            confirm(f"Delete {len(runs):,} runs, {span}, with their series{archives}?")
        for run in runs:
            client.delete_run(run.id, keep_archive=keep_archives).result()
    fields = {"deleted": [run.id for run in runs]}
    print_outcome(fields, f"{count(len(runs), 'run')} deleted", as_json=json)
