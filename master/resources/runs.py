"""``/api/runs/``: order a run, see how it goes, stop it, delete it."""

from dataclasses import dataclass
from typing import Any

import falcon
from falcon import Request, Response

from master import orders, runs
from master.models import Rank, Run
from master.resources.params import read_body
from master.settings import Limits
from master.times import seconds_to_text


def to_media(run: Run) -> dict[str, Any]:
    """Return a run as the API shows it."""
    ranks = Rank.select().where(Rank.run == run, Rank.attempt == run.attempt).order_by(Rank.rank)
    return {
        "id": run.id,
        "name": run.name,
        "created_at": seconds_to_text(run.created_at),
        "started_at": seconds_to_text(run.started_at),
        "finished_at": seconds_to_text(run.finished_at),
        "state": run.state,
        "reason": run.reason,
        "waiting": run.waiting or "",
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
        "delivery": run.delivery,
        "ranks": [
            {"rank": rank.rank, "pod": rank.worker, "exit_code": rank.exit_code} for rank in ranks
        ],
    }


@dataclass(frozen=True)
class RunsResource:
    """All runs."""

    limits: Limits

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with all runs, the oldest first."""
        resp.media = [to_media(run) for run in Run.select().order_by(Run.id)]

    def on_post(self, req: Request, resp: Response) -> None:
        """Order a run."""
        run = runs.create(read_body(req, orders.RunOrder), self.limits)
        resp.media = to_media(run)


class RunResource:
    """One run."""

    def on_get(self, req: Request, resp: Response, run_id: int) -> None:
        """Answer with the run."""
        resp.media = to_media(runs.find(run_id))

    def on_delete(self, req: Request, resp: Response, run_id: int) -> None:
        """Delete the run, if it has ended."""
        runs.delete(runs.find(run_id))
        resp.status = falcon.HTTP_NO_CONTENT


class RunStopResource:
    """The wish that a run stops."""

    def on_post(self, req: Request, resp: Response, run_id: int) -> None:
        """Ask for the run to be stopped, and answer with the run."""
        runs.stop(runs.find(run_id))
        resp.media = to_media(runs.find(run_id))
