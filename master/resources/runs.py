"""``/api/runs/``: order a run, see how it goes, stop it, delete it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import falcon
from falcon import Request, Response
from peewee import Expression

from master import orders, runs
from master.database import database, snapshot
from master.models import Rank, Run
from master.resources.params import read_body, whole_number
from master.settings import Limits
from master.times import seconds_to_text

_UNCOUNTED = "its samples are not yet counted: Prometheus must take them first"

Ranks = Sequence[Mapping[str, Any]]
"""The ranks of a run's latest attempt, as the API shows them."""


def _to_media(run: Run, ranks: Ranks) -> dict[str, Any]:
    """Return a run as the API shows it."""
    return {
        "id": run.id,
        "name": run.name,
        "created_at": seconds_to_text(run.created_at),
        "started_at": seconds_to_text(run.started_at),
        "finished_at": seconds_to_text(run.finished_at),
        "state": run.state,
        "reason": runs.reason_of(run),
        "waiting": run.waiting or ("" if runs.is_counted(run) else _UNCOUNTED),
        "job_id": run.job_id,
        "job_metadata": {},
        "benchmark": run.benchmark,
        "args": run.args,
        "image": run.image,
        "command": run.command,
        "working_dir": run.working_dir,
        "backend": run.backend,
        "run_all_nodes": run.run_all_nodes,
        "num_workers": run.num_workers,
        "num_cpus": run.num_cpus,
        "max_bandwidth": run.max_bandwidth,
        "gpu_enabled": run.gpu_enabled,
        "light_target": run.light_target,
        "seed": run.seed,
        "deadline_seconds": run.deadline_seconds,
        "max_restarts": run.max_restarts,
        "attempt": run.attempt,
        "stop_requested": run.stop_requested,
        "settings": run.settings,
        "goal": run.goal,
        "goal_reached_at": seconds_to_text(run.goal_reached_at),
        "goal_train_seconds": run.goal_train_seconds,
        "delivery": run.delivery,
        "ranks": ranks,
    }


def _all_to_media(wanted: Expression) -> list[dict[str, Any]]:
    """Return the runs that a condition selects, the oldest first, as they are at one moment."""
    with snapshot():
        found = list(Run.select().where(wanted).order_by(Run.id))
        ranks = _ranks_by_run(wanted)
    return [_to_media(run, ranks.get(run.id, [])) for run in found]


def _ranks_by_run(wanted: Expression) -> Mapping[int, Ranks]:
    """Return the ranks of the runs that a condition selects, by the run's id: in one query."""
    rows = (
        Rank.select(Rank.run, Rank.rank, Rank.worker, Rank.exit_code)
        .join(Run)
        .where(wanted, Rank.attempt == Run.attempt)
        .order_by(Rank.run, Rank.rank)
    )
    by_run: dict[int, list[dict[str, Any]]] = {}
    for run_id, rank, pod, exit_code in database.execute(rows):
        by_run.setdefault(run_id, []).append({"rank": rank, "pod": pod, "exit_code": exit_code})
    return by_run


def _one_to_media(run: Run) -> dict[str, Any]:
    return _to_media(run, _ranks_by_run(Run.id == run.id).get(run.id, []))


@dataclass(frozen=True)
class RunsResource:
    """All runs."""

    limits: Limits

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with all runs, the oldest first, or with those from an id on."""
        resp.media = _all_to_media(Run.id >= (whole_number(req, "from_id", default=0) or 0))

    def on_post(self, req: Request, resp: Response) -> None:
        """Order a run."""
        run = runs.create(read_body(req, orders.RunOrder), self.limits)
        resp.media = _one_to_media(run)


class RunResource:
    """One run."""

    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the run."""
        resp.media = _one_to_media(runs.find(run_id))

    def on_delete(self, req: Request, resp: Response, run_id: int) -> None:
        """Delete the run, if it has ended."""
        runs.delete(runs.find(run_id))
        resp.status = falcon.HTTP_NO_CONTENT


class RunStopResource:
    """The wish that a run stops."""

    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Ask for the run to be stopped, and answer with the run."""
        runs.stop(runs.find(run_id))
        resp.media = _one_to_media(runs.find(run_id))
