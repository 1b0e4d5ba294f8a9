"""``mlbench prune``: delete the oldest runs, by their age and by the space that all runs use."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

import typer

from mlbench.cli import spec
from mlbench.cli.common import JsonOption, UsageError, confirm, connected, err, print_outcome, warn
from mlbench.contract.humanize import byte_size, count
from mlbench.contract.records import Run, RunSet

_PAGE = 500
_SHOWN = 20
PINNED = "pinned"
"""Tag of runs that are never pruned."""


def prune(
    older_than: Annotated[
        float | None,
        spec.quantity(spec.AGE, help="Time since the end of the runs, e.g. 90d or 12w."),
    ] = None,
    keep_bytes: Annotated[
        float | None,
        spec.quantity(
            spec.SIZE,
            help="Delete the oldest runs until the others take at most this, e.g. 500MB or 20GB.",
        ),
    ] = None,
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
    """Delete runs by age or total size, except imported and pinned ones.

    Active runs stay, too. Runs with the tag `pinned` are pinned. The runs of a benchmark set are
    deleted together or not at all.

    The size is that of archives, logs and output files. With --query, only matching runs count.
    """
    if older_than is None and keep_bytes is None:
        raise UsageError("--older-than, --keep-bytes: at least one is required")
    if keep_bytes is not None and keep_archives:
        raise UsageError("--keep-bytes: the size includes archives. Leave out --keep-archives.")
    until = datetime.now(UTC) - timedelta(days=older_than or 0)
    with connected() as client:
        runs: list[Run] = []
        list_runs = partial(client.get_runs, limit=_PAGE, query=query, columns=["size"])
        page = list_runs().result().value
        while page:
            runs += page
            page = list_runs(before=page[0].id).result().value
        sets = client.get_sets().result().value if any(run.set_name for run in runs) else []
        remaining, chosen = sum(map(_size, runs)), []
        for group in deletable(runs, sets, until):
            if keep_bytes is None or remaining > keep_bytes:
                chosen += group
                remaining -= sum(map(_size, group))
        if keep_bytes is not None and remaining > keep_bytes:
            warn(
                f"--keep-bytes: the other runs take {byte_size(remaining)}. They are active, "
                "pinned, imported, too young, or in a benchmark set with such a run."
            )
        shown = [
            f"run {run.id} ({run.title}) of {run.finished_at:.10}, {byte_size(_size(run))}"
            for run in chosen
        ]
        if dry_run:
            fields = {"would_delete": [run.id for run in chosen]}
            count_line = f"{count(len(chosen), 'run')} would be deleted"
            print_outcome(fields, *shown, count_line, as_json=json)
            return
        if chosen and not yes:
            more = len(shown) - _SHOWN
            err.print("\n".join(shown[:_SHOWN] + [f"and {more:,} more"] * (more > 0)))
            archives = "" if keep_archives else " and archives"
            confirm(f"Delete {count(len(chosen), 'run')} with their series{archives}?")
        for run in chosen:
            client.delete_run(run.id, keep_archive=keep_archives).result()
    fields = {"deleted": [run.id for run in chosen]}
    print_outcome(fields, f"{count(len(chosen), 'run')} deleted", as_json=json)


def deletable(runs: Iterable[Run], sets: Iterable[RunSet], until: datetime) -> list[list[Run]]:
    """Return groups of runs that may be deleted, the oldest first.

    The runs of a benchmark set are one group, if all of them may be deleted.
    """
    single = {
        run.id: run
        for run in runs
        if not run.origin
        and PINNED not in run.tags
        and run.finished_at is not None
        and datetime.fromisoformat(run.finished_at) < until
    }
    groups = []
    for run_set in sets:
        ids = {trial.run_id for trial in run_set.trials if not trial.deleted}
        group = [single.pop(run_id) for run_id in sorted(ids & single.keys())]
        if group and len(group) == len(ids) and not run_set.is_active:
            groups.append(group)
    groups += [[run] for run in single.values()]
    return sorted(groups, key=lambda group: max(run.finished_at or "" for run in group))


def _size(run: Run) -> float:
    """Return the bytes of a run that was listed with its size."""
    size = run.values["size"]
    return size if isinstance(size, int | float) else 0
