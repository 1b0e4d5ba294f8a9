"""``mlbench prune``: delete the runs that ended long ago."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from mlbench.cli.common import JsonOption, UsageError, confirm, connected, err, print_outcome
from mlbench.contract.humanize import count

_AGE = re.compile(r"([0-9]{1,5})([dw])")
_PAGE = 500
_SHOWN = 20
PINNED = "pinned"
"""Tag of runs that are never pruned."""


def prune(
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Time since the end of the runs, e.g. 90d or 12w.")
    ],
    query: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY", help="Only runs that match, e.g. 'user=ada tag:draft' or a word."
        ),
    ] = None,
    keep_archives: Annotated[
        bool,
        typer.Option("--keep-archives", help="Keep the archives, titles, tags and notes."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the runs that would be deleted.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete runs that ended long ago, except imported and pinned ones.

    Runs with the tag `pinned` are pinned.
    """
    age = _AGE.fullmatch(older_than)
    if age is None:
        raise UsageError(
            f"--older-than: must be days or weeks, e.g. 90d or 12w (got {older_than!r})"
        )
    until = datetime.now(UTC) - timedelta(days=int(age[1]) * {"d": 1, "w": 7}[age[2]])
    with connected() as client:
        runs = []
        page = client.get_runs(limit=_PAGE, query=query).result().value
        while page:
            runs += [
                run
                for run in reversed(page)
                if not run.origin
                and PINNED not in run.tags
                and run.finished_at is not None
                and datetime.fromisoformat(run.finished_at) < until
            ]
            page = client.get_runs(limit=_PAGE, before=page[0].id, query=query).result().value
        shown = [f"run {run.id} ({run.title}) of {run.finished_at:.10}" for run in runs]
        if dry_run:
            fields = {"would_delete": [run.id for run in runs]}
            count_line = f"{count(len(runs), 'run')} would be deleted"
            print_outcome(fields, *shown, count_line, as_json=json)
            return
        if runs and not yes:
            more = len(shown) - _SHOWN
            err.print("\n".join(shown[:_SHOWN] + [f"and {more:,} more"] * (more > 0)))
            archives = "" if keep_archives else " and archives"
            confirm(f"Delete {count(len(runs), 'run')} with their series{archives}?")
        for run in runs:
            client.delete_run(run.id, keep_archive=keep_archives).result()
    fields = {"deleted": [run.id for run in runs]}
    print_outcome(fields, f"{count(len(runs), 'run')} deleted", as_json=json)
