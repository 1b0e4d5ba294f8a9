"""``/api/pods/``: the worker pods."""

from typing import Any

from falcon import Request, Response

from master.models import Pod, Rank, Run, Worker
from master.pods import is_same_pod
from master.times import seconds_to_text
from mlbench.names import ACTIVE_STATES


class PodsResource:
    """All worker pods."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with every worker pod: the run and rank that it has, and what its agent said."""
        active = (
            Rank.select(Rank.worker, Rank.run, Rank.rank)
            .join(Run)
            .where(Run.state.in_(ACTIVE_STATES), Rank.attempt == Run.attempt)
        )
        ranks = {rank.worker: (rank.run_id, rank.rank) for rank in active}
        agents = {worker.name: worker for worker in Worker.select()}
        resp.media = [
            _to_media(pod, ranks.get(pod.name, (None, None)), agents.get(pod.name))
            for pod in Pod.select().order_by(Pod.name)
        ]


def _to_media(
    pod: Pod, place: tuple[int | None, int | None], agent: Worker | None
) -> dict[str, Any]:
    run_id, rank = place
    heard = agent is not None and is_same_pod(pod.uid, agent.pod_uid)
    return {
        "name": pod.name,
        # As the original wrote it: a Python dictionary's text.
        "labels": str(pod.labels),
        "phase": pod.phase,
        "ip": pod.ip,
        "node": pod.node,
        "run_id": run_id,
        "rank": rank,
        "state": agent.state if agent and heard else None,
        "seen_at": seconds_to_text(agent.seen_at) if agent and heard else None,
    }
