"""Runs: store an order, find, describe, stop, delete."""

import json
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from peewee import Expression

from mlbench import records
from mlbench.evaluation.disturbance import is_disturbed
from mlbench.evaluation.ledger import Entry
from mlbench.faults import MOST
from mlbench.names import ACTIVE_STATES
from mlbench.records import Disturbance
from mlbench_master.database import STATE, database, exclusive, run_sql
from mlbench_master.errors import ConflictError, NotFoundError
from mlbench_master.models import (
    DeletedRun,
    Deletion,
    Pod,
    Rank,
    Run,
    RunSet,
    Stream,
    Worker,
    added_owner,
    deleted_owner,
    run_owner,
)
from mlbench_master.notify import notify
from mlbench_master.reading.counting import delivered_so_far
from mlbench_master.recording.limits import describe_refused, waiting_bytes
from mlbench_master.runs import faults
from mlbench_master.runs.feasible import check_feasible
from mlbench_master.runs.requests import RunRequest, kubernetes_name
from mlbench_master.settings import Limits
from mlbench_master.times import seconds_to_text

_Dated = TypeVar("_Dated")

_COLUMNS = frozenset(Run._meta.fields)
_ORDERED = _COLUMNS & {field.name for field in fields(RunRequest)}
# A run that is being deleted ends within seconds: the next one waits for that in the queue.
_TO_STAY = "state IN (?, ?) AND launcher = '' AND NOT delete_requested ORDER BY id LIMIT ?"
_NEXT = """
    state = ? AND launcher = ''
    OR id IN (SELECT id FROM run WHERE state = ? ORDER BY id LIMIT 1) ORDER BY id
"""
_RECORDED = "state = ? AND launcher <> '' ORDER BY id"
_HAS_ACTIVE = "SELECT 1 FROM run WHERE state IN (?, ?) LIMIT 1"
_UNCOUNTED = "its samples are not yet counted: Prometheus must take them first"

_MANY = 1000

# What an agent ends a process with that is to be stopped.
STOPPED_BY = (-signal.SIGTERM, -signal.SIGKILL)
# What a run that recorded nothing is told.
_NOTHING = """it recorded nothing, so there is no result

Its code can record in three lines{}:

    from mlbench import Tracker
    t = Tracker()
    t.log(train_loss=loss)"""
_INSTALL = ", after `pip install mlbench-stack` in its Python"
_ONE_LINE = "\n\nWith a library that its Python has, one is enough:\n"
_BY_LIBRARY = {
    "transformers": 'Trainer: report_to="mlbench"',
    "accelerate": "Accelerator: log_with=mlbench.integrations.accelerate.MLBenchTracker()",
    "keras": "Keras: callbacks=[mlbench.integrations.keras.MLBenchCallback()]",
}


def create(order: RunRequest, limits: Limits, in_set: Mapping[str, Any] | None = None) -> Run:
    """Store a new run, for the controller to start; ``master/sets.py`` says where in a set it is.

    Raises:
        BadFieldError: it asks for more than the pool can give (400).
        ConflictError: a run is active, and this one is not to be queued (409).
    """
    check_feasible(order, limits)
    with exclusive(STATE):
        active = Run.rows(_TO_STAY, *ACTIVE_STATES, limits.concurrent_runs)
        if len(active) == limits.concurrent_runs and not (order.queue or limits.always_queue):
            these = " and ".join(f"run {run.id} ({run.title or run.own_name})" for run in active)
            raise ConflictError(
                f"{these} {'is' if len(active) == 1 else 'are'} active: wait until it has ended, "
                "stop it, or let this one wait: queue=true, or `mlbench run --queue`"
            )
        resolved = {
            "name": kubernetes_name(order.name),
            "display_name": order.name,
            "benchmark": order.task.name if order.task else "",
            "by_default": order.by_default,
            "args": order.all_args,
            "image": order.custom_image_name or limits.framework_images.get(order.framework, ""),
            "command": order.custom_image_command or "",
            "backend": order.backend_name,
            "run_all_nodes": order.runs_on_all,
            "max_bandwidth": order.wanted_bandwidth(limits),
            "max_restarts": order.max_restarts or (MOST if order.faults else 0),
            "injected": faults.stored(faults.draw(order.faults, order.seed, order.num_workers)),
            **(in_set or {}),
        }
        created: Run = Run.create(
            **{name: getattr(order, name) for name in _ORDERED} | resolved,
            job_id=str(uuid.uuid4()),
            state="INITIALIZED",
            created_at=time.time(),
        )
    notify()
    return created


def describe(run: Run) -> records.Run:
    """Describe a run as the API shows it."""
    return describe_all([run])[0]


def describe_all(runs: Sequence[Run]) -> list[records.Run]:
    """Describe runs, in the order of their ids, as the API shows them."""
    ids = [run.id for run in runs]
    # A query takes some thousands of values.
    several = Run.id.in_(ids) if len(ids) < _MANY else Run.id.between(ids[0], ids[-1])
    ranks = _ranks_by_run(several) if ids else {}
    return [_describe(run, ranks.get(run.id, ())) for run in runs]


def _describe(run: Run, ranks: tuple[records.Rank, ...]) -> records.Run:
    others = {
        "display_name": run.own_name,
        "job_metadata": _job_metadata(run, ranks),
        "created_at": seconds_to_text(run.created_at),
        "started_at": seconds_to_text(run.started_at),
        "finished_at": seconds_to_text(run.finished_at),
        "goal_reached_at": seconds_to_text(run.goal_reached_at),
        "reason": reason_of(run) or note_of(run),
        "waiting": run.waiting or ("" if is_counted(run) else _UNCOUNTED),
        "goal": goal_of(run),
        "origin": _dated(records.Origin, run.origin, "imported_at"),
        "world_size": run.world_size,
        "delivery": records.Delivery(**run.delivery) if run.delivery else None,
        "added": added_to(run),
        "not_finite": _dated(records.NotFinite, run.not_finite, "since"),
        **{name: run.figures[name] for name in ("disturbed", "waiting_share") if run.figures},
        "ranks": ranks,
    }
    return records.Run(**columns_of(run, records.Run) | others)


def _job_metadata(run: Run, ranks: tuple[records.Rank, ...]) -> dict[str, Any]:
    """Return what MLBench's dashboard told of a job, by the same names."""
    pods = [rank.pod for rank in ranks]
    return {
        "command": run.command or run.benchmark,
        "master_name": next(iter(pods), None),
        "pods": pods,
    }


def _dated(record: Callable[..., _Dated], stored: Any, at: str) -> _Dated | None:
    """Return a record of what is stored, of which ``at`` is in Unix seconds; None of nothing."""
    return record(**stored | {at: seconds_to_text(stored[at])}) if stored else None


def added_to(run: Run) -> records.Added | None:
    """Return how much was posted for a run after its end; None if nothing was."""
    if run.added is None:
        return None
    times = (seconds_to_text(run.added[name]) for name in ("first_at", "last_at"))
    return records.Added(run.added["samples"], *times)


def goal_of(run: Run) -> records.Goal | None:
    """Return the goal of a run; None for a task without one."""
    return records.Goal(**run.goal) if run.goal else None


def columns_of(run: Run, record: type[records.Record]) -> dict[str, Any]:
    """Return the columns of a run that a record has fields for, by name."""
    parts = fields(record)
    return {part.name: getattr(run, part.name) for part in parts if part.name in _COLUMNS}


def _ranks_by_run(wanted: Expression) -> Mapping[int, tuple[records.Rank, ...]]:
    """Return the ranks of the latest attempts of some runs, by the run's id: in one query."""
    rows = (
        Rank.select(
            *(Rank.run, Rank.rank, Rank.worker, Rank.exit_code, Rank.processes),
            *(Rank.stop, Rank.exited_at),
        )
        .join(Run)
        .where(wanted, Rank.attempt == Run.attempt)
        .order_by(Rank.run, Rank.rank)
    )
    return {
        run_id: tuple(_describe_ranks([_RankRow(*row[1:]) for row in its]))
        for run_id, its in groupby(database.execute(rows), itemgetter(0))
    }


class _RankRow(NamedTuple):
    rank: int
    pod: str
    exit_code: int | None
    processes: str | None
    stop: bool
    exited_at: float | None

    @property
    def was_stopped(self) -> bool:
        return bool(self.stop) and self.exit_code in STOPPED_BY


def _describe_ranks(rows: Sequence[_RankRow]) -> Iterator[records.Rank]:
    failed = [row for row in rows if row.exit_code and not row.was_stopped]
    first = min(failed, key=lambda row: row.exited_at or 0.0, default=None)
    why = "stopped" if first is None else f"stopped after rank {first.rank} failed"
    for row in rows:
        ranks = tuple(json.loads(row.processes)["ranks"]) if row.processes else (row.rank,)
        stopped = why if row.was_stopped else ""
        yield records.Rank(row.rank, row.pod, row.exit_code, stopped, ranks)


def worker_of(run: Run, attempt: int, rank: int) -> int | None:
    """Return the rank of the worker that has a rank in an attempt; None if none has it."""
    there = Rank.select(Rank.rank, Rank.processes).where(Rank.run == run, Rank.attempt == attempt)
    several = {one.rank: one.ranks for one in there.where(Rank.processes.is_null(False))}
    found = next((worker for worker, ranks in several.items() if rank in ranks), None)
    if found is None and rank < run.num_workers and rank not in several:
        return rank
    return found


def find_next(concurrent: int) -> list[Run]:
    """Return the runs that have begun, then the next one if fewer than ``concurrent`` go on.

    Recorded runs are not among them.
    """
    runs = Run.rows(_NEXT, "STARTED", "INITIALIZED")
    begun = [run for run in runs if run.state == "STARTED"]
    return runs if len(begun) < concurrent else begun


def find_recorded() -> list[Run]:
    """Return the runs that go on though MLBench has not started their processes."""
    return Run.rows(_RECORDED, "STARTED")


def find_begun() -> list[int]:
    """Return the ids of the runs that have begun, and not ended."""
    return [row[0] for row in run_sql("SELECT id FROM run WHERE state = ?", "STARTED").fetchall()]


def has_active() -> bool:
    """Check if there is a run that has not ended, in a tenth of the time of finding it.

    Also a recorded one: it may be on the machine of an agent, which keeps its hands of it.
    """
    return run_sql(_HAS_ACTIVE, *ACTIVE_STATES).fetchone() is not None


def deadline_at(run: Run) -> float | None:
    """Return the deadline of a run in Unix seconds; a restart does not move it.

    None for a run that has no deadline, or has not started.
    """
    if run.deadline_seconds is None or run.started_at is None:
        return None
    return run.started_at + run.deadline_seconds


def note_of(run: Run) -> str:
    """Say that a run is of the default task, if its order named nothing to run."""
    if not run.by_default:
        return ""
    return f"no benchmark was named, so {run.benchmark} was taken, the default"


def reason_of(run: Run) -> str:
    """Explain why a run ended as it did, which samples were refused, or that there are none."""
    is_silent = run.state == "FINISHED" and run.delivery and not run.delivery["recorded"]
    nothing = _how_to_record(run) if is_silent and not run.benchmark else ""
    if nothing and run.added:
        nothing += f"\n\nSamples that were added after its end: {run.added['samples']:,}"
    return "; ".join(filter(None, [describe_refused(run), run.reason, nothing]))


def _how_to_record(run: Run) -> str:
    """Say that a run recorded nothing, and how the Python of its first rank can."""
    rank = Rank.get_or_none(Rank.run == run, Rank.attempt == run.attempt, Rank.rank == 0)
    machine = (rank.machine if rank else None) or {}
    packages = machine.get("packages", ())
    lacks_ours = machine.get("python") and "mlbench-stack" not in packages
    hint = _NOTHING.format(_INSTALL if lacks_ours else "")
    lines = [f"    {line}" for library, line in _BY_LIBRARY.items() if library in packages]
    return "\n".join([hint + _ONE_LINE, *lines]) if lines else hint


def is_counted(run: Run) -> bool:
    """Check that a run's samples are counted; those of an active run need not be."""
    return run.state in ACTIVE_STATES or run.delivery is not None or run.settled_at is not None


def find(run_id: int) -> Run:
    """Return a run.

    Raises:
        NotFoundError: there is no such run.
    """
    known = Run.rows("id = ?", run_id) if abs(run_id) < 2**63 else []
    if not known:
        raise NotFoundError(f"run_id: there is no run {run_id}")
    return known[0]


def ended_among(run_ids: Collection[int]) -> set[int]:
    """Return the ids of those runs that have ended."""
    known = [run_id for run_id in run_ids if abs(run_id) < 2**63]
    if not known:
        return set()
    some = ", ".join("?" * len(known))
    ended = f"SELECT id FROM run WHERE finished_at IS NOT NULL AND id IN ({some})"  # noqa: S608
    return {row[0] for row in run_sql(ended, *known).fetchall()}


def check_own(run: Run) -> None:
    """Make sure that a run is one of this installation.

    Raises:
        ConflictError: it was imported, and is read only.
    """
    if run.origin is not None:
        raise ConflictError(f"run {run.id} was imported: it is read only")


def stop(run: Run) -> None:
    """Ask the controller to stop a run; one that has ended stays as it is."""
    asked = Run.update(stop_requested=True)
    with exclusive(STATE):
        asked.where(Run.id == run.id, Run.state.in_(ACTIVE_STATES)).execute()
    notify()


def delete(run: Run, *, keep_archive: bool = False) -> bool:
    """Delete a run, or have one that is active stopped, and deleted as it ends (``end``).

    Nobody finds a deleted run any more, and the controller sweeps the rest, its series in
    Prometheus too. Its entry in the ledger of its set stays.

    Returns:
        Whether it is deleted by now.
    """
    with exclusive(STATE):
        current = find(run.id)
        is_active = current.state in ACTIVE_STATES
        if is_active:
            current.stop_requested = current.delete_requested = True
            current.save(only=[Run.stop_requested, Run.delete_requested])
        else:
            _delete(current, keep_archive=keep_archive)
    notify()
    return not is_active


def end(run_id: int, **last: Any) -> None:
    """Give an active run the columns of its end, and delete it if its user wants that.

    Samples that were posted since it was counted have it counted again.
    """
    # Nothing is posted meanwhile: from then on it is an addition.
    with exclusive(STATE), exclusive(run_owner(run_id)):
        ending = Run.update(last).where(Run.id == run_id, Run.state.in_(ACTIVE_STATES))
        if not ending.execute():
            return
        ended = find(run_id)
        counted = ended.delivery["recorded"] if ended.delivery else 0
        if waiting_bytes(run_owner(run_id)) or delivered_so_far(run_id).recorded != counted:
            Run.update(delivery=None).where(Run.id == run_id).execute()
        if ended.launcher:
            _delete_pods(ended)
        if ended.delete_requested:
            _delete(ended)
    notify()  # to have it sealed


def _delete_pods(run: Run) -> None:
    """Delete what stands for the ranks of a recorded run, of which nothing more can come."""
    its = Rank.select(Rank.worker).where(Rank.run == run.id)
    for table in (Pod, Worker):
        table.delete().where(table.name.in_(its)).execute()


def _delete(run: Run, *, keep_archive: bool = False) -> None:
    archived = run.archive is not None and not keep_archive
    if run.set_name is not None:
        _leave_trace(run)
    owners = run_owner(run.id), added_owner(run.id)
    # Both before the run's row: who adds samples locks in this order.
    with exclusive(owners[0]), exclusive(owners[1]):
        for owner in owners:
            # Nothing of it waits to be delivered any more, and nothing can be added.
            Stream.update(owner=deleted_owner(owner), delivered=Stream.size).where(
                Stream.owner == owner
            ).execute()
            Deletion.create(owner=owner, archived=archived)
        DeletedRun.create(run_id=run.id, deleted_at=time.time())
        run.delete_instance()


def _leave_trace(run: Run) -> None:
    """Have the ledger of its set remember a run that is about to be deleted."""
    found = RunSet.get_by_id(run.set_name)
    entry = entry_of(run, disturbed=bool(disturbed_among(Run.id == run.id)))
    found.deleted = [*found.deleted, asdict(replace(entry, deleted=True))]
    found.save()


def entry_of(run: Run, *, disturbed: bool) -> Entry:
    """Return the ledger entry of a run that belongs to a set."""
    assert run.place is not None
    return Entry(run.place, run.id, run.seed, run.state, reason_of(run), disturbed)


def disturbed_among(wanted: Expression) -> set[int]:
    """Return the ids of those runs that were disturbed."""
    columns = Rank.select(Rank.run, Rank.disturbance)
    ranks = columns.join(Run).where(wanted, Rank.disturbance.is_null(False))
    measured = [(rank.run_id, Disturbance.from_fields(rank.disturbance)) for rank in ranks]
    return {run_id for run_id, of_rank in measured if is_disturbed(of_rank)}
