"""``/api/pods/``: the worker pods."""

from falcon import Request, Response

from master.models import Pod, Rank, Run
from mlbench.names import ACTIVE_STATES


class PodsResource:
    """All worker pods."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer with every worker pod, and the run and rank that it has."""
        active = (
            Rank.select(Rank.worker, Rank.run, Rank.rank)
            .join(Run)
            .where(Run.state.in_(ACTIVE_STATES), Rank.attempt == Run.attempt)
        )
        ranks = {rank.worker: (rank.run_id, rank.rank) for rank in active}
        resp.media = [
            {
                "name": pod.name,
                # As the original wrote it: a Python dictionary's text.
                "labels": str(pod.labels),
                "phase": pod.phase,
                "ip": pod.ip,
                "node": pod.node,
                "run_id": ranks.get(pod.name, (None, None))[0],
                "rank": ranks.get(pod.name, (None, None))[1],
            }
            for pod in Pod.select().order_by(Pod.name)
        ]
