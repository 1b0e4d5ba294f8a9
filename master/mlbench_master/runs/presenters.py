"""Records of runs for the API, with the reasons for their end and for waiting."""

import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from mlbench.contract import records
from mlbench.contract.names import ACTIVE_STATES
from mlbench_master.database.connection import database, find_shortage
from mlbench_master.database.models import Rank, Run
from mlbench_master.database.models.table import Table
from mlbench_master.recording import not_recorded
from mlbench_master.recording.limits import describe_refused
from mlbench_master.runs import notes
from mlbench_master.timestamps import seconds_to_text

_Record = TypeVar("_Record")

# A query can have only some thousands of values.
_MAX_IDS = 1000
STOPPED_BY = (-signal.SIGTERM, -signal.SIGKILL)
"""Exit codes of processes that agents stopped."""
# Reason for the end of a run without samples.
_NOTHING = """it recorded nothing, so there is no result

Its code can record in three lines{}:

    from mlbench import Tracker
    t = Tracker()
    t.log(train_loss=loss)"""
_BY_LIBRARY = {
    "transformers": 'Trainer: report_to="mlbench"',
    "accelerate": "Accelerator: log_with=mlbench_callbacks.accelerate.MLBenchTracker()",
    "keras": "Keras: callbacks=[mlbench_callbacks.keras.MLBenchCallback()]",
}


def describe(run: Run) -> records.Run:
    """Return the API record of a run."""
    return describe_all([run])[0]


def describe_all(runs: Sequence[Run]) -> list[records.Run]:
    """Return the API records of runs, in the order of the runs."""
    if not runs:
        return []
    ids = [run.id for run in runs]
    condition = Run.id.in_(ids) if len(ids) < _MAX_IDS else Run.id.between(min(ids), max(ids))
    rows = (
        Rank.select(
            *(Rank.run, Rank.rank, Rank.worker, Rank.exit_code, Rank.processes),
            *(Rank.stop, Rank.exited_at),
        )
        .join(Run)
        .where(condition, Rank.attempt == Run.attempt)
        .order_by(Rank.run, Rank.rank)
    )
    ranks_of: dict[int, list[records.Rank]] = {}
    for run_id, group in groupby(database.execute(rows), itemgetter(0)):
        ranks = [_PresentedRank(*row[1:]) for row in group]
        failed = [rank for rank in ranks if rank.exit_code and not rank.was_stopped]
        first = min(failed, key=lambda rank: rank.exited_at or 0.0, default=None)
        reason = "stopped" if first is None else f"stopped after rank {first.rank} failed"
        ranks_of[run_id] = [
            records.Rank(
                *(rank.rank, rank.pod, rank.exit_code, reason if rank.was_stopped else ""),
                tuple(json.loads(rank.processes)["ranks"]) if rank.processes else (rank.rank,),
            )
            for rank in ranks
        ]
    return [_describe(run, tuple(ranks_of.get(run.id, ()))) for run in runs]


def _describe(run: Run, ranks: tuple[records.Rank, ...]) -> records.Run:
    is_counted = run.state in ACTIVE_STATES or (run.delivery, run.blocks_deleted_at) != (None, None)
    pods = [rank.pod for rank in ranks]
    outcome = (run.figures or {}).get("outcome")
    # Why nothing of an active run can be stored; empty if the disk has room.
    shortage = find_shortage() if run.state in ACTIVE_STATES else ""
    uncounted = "its samples are not yet counted: Prometheus must take them first"
    # The job of MLBench's original dashboard, with the same field names.
    job = {"command": run.shown_command or run.benchmark, "master_name": next(iter(pods), None)}
    others = {
        "name": run.own_name,
        "resource_name": run.name,
        "job_metadata": job | {"pods": pods},
        "reason": reason_of(run) or note_of(run),
        "waiting": run.waiting or shortage or ("" if is_counted else uncounted),
        "origin": _dated(records.Origin, run.origin, "imported_at"),
        "world_size": run.world_size,
        "delivery": records.Delivery(**run.delivery) if run.delivery else None,
        "added": added_to(run),
        "not_finite": _dated(records.NotFinite, run.not_finite, "since"),
        "outcome": records.Outcome(**outcome) if outcome else None,
        **{name: run.figures[name] for name in ("disturbed", "contention_share") if run.figures},
        "note_html": notes.to_html(run.note),
        "ranks": ranks,
    }
    return records.Run(**run_columns_of(run, records.Run) | others)


def _dated(record: Callable[..., _Record], stored: Any, at: str) -> _Record | None:
    """Return a record of stored fields, of which ``at`` is in Unix seconds; None for None."""
    return record(**stored | {at: seconds_to_text(stored[at])}) if stored else None


def added_to(run: Run) -> records.Added | None:
    """Return the samples that arrived too late for the result of a run; None without such."""
    if run.added is None:
        return None
    first_at, last_at = (seconds_to_text(run.added[name]) for name in ("first_at", "last_at"))
    of_lost_ranks = run.added.get("of_lost_ranks", 0)
    return records.Added(run.added["samples"], first_at, last_at, of_lost_ranks)


def target_of(run: Run) -> records.Target | None:
    """Return the target of a run; None for a task without one."""
    return records.Target(**run.target) if run.target else None


def columns_of(row: Table, record: type[records.Record]) -> dict[str, Any]:
    """Return the columns of a row that are fields of a record, by name, with times as text."""
    names = [field.name for field in fields(record) if field.name in row._meta.fields]
    columns = {name: getattr(row, name) for name in names}
    times = {name: seconds_to_text(at) for name, at in columns.items() if name.endswith("_at")}
    return columns | times


def run_columns_of(run: Run, record: type[records.Record]) -> dict[str, Any]:
    """Return the columns of a run that are fields of a record, without secrets."""
    columns = columns_of(run, record)
    shown = {
        "command": run.shown_command,
        "target": target_of(run),
        "not_recorded": not_recorded.describe(run),
    }
    return columns | {name: value for name, value in shown.items() if name in columns}


class _PresentedRank(NamedTuple):
    rank: int
    pod: str
    exit_code: int | None
    processes: str | None
    stop: bool
    exited_at: float | None

    @property
    def was_stopped(self) -> bool:
        return bool(self.stop) and self.exit_code in STOPPED_BY


def note_of(run: Run) -> str:
    """Return how the run differs from its request, e.g. the default benchmark; else empty."""
    default = f"no benchmark was named, so {run.benchmark} was taken, the default"
    return "; ".join(filter(None, [default if run.by_default else "", run.adjustments]))


def reason_of(run: Run) -> str:
    """Return why the run ended, with refused samples, and advice if it recorded nothing."""
    is_silent = run.state == "FINISHED" and run.delivery and not run.delivery["recorded"]
    hint = ""
    if is_silent and not run.benchmark:
        rank = Rank.get_or_none(Rank.run == run, Rank.attempt == run.attempt, Rank.rank == 0)
        machine = (rank.machine if rank else None) or {}
        packages = machine.get("packages", ())
        lacks_mlbench = machine.get("python") and "mlbench-stack" not in packages
        where = ", after MLBench is installed in its Python" if lacks_mlbench else ""
        hint = _NOTHING.format(where)
        lines = [f"    {line}" for library, line in _BY_LIBRARY.items() if library in packages]
        if lines:
            hint += "\n\nWith a library that its Python has, one is enough:\n"
        hint = "\n".join([hint, *lines])
        if run.added:
            hint += f"\n\nSamples that were added after its end: {run.added['samples']:,}"
    stopped = f"stopped by {run.stopped_by}" if run.stopped_by not in ("", run.user) else ""
    return "; ".join(filter(None, [describe_refused(run), stopped, run.reason, hint]))
