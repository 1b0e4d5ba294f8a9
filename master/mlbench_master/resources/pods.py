"""``/api/pods/``: the worker pods."""

from typing import cast

from falcon import Request, Response

from mlbench.contract import records
from mlbench.contract.names import ACTIVE_STATES
from mlbench_master.database.models import Pod, Rank, Run, Worker
from mlbench_master.openapi.operation import operation
from mlbench_master.pools.pool import is_same_pod
from mlbench_master.timestamps import seconds_to_text


class PodsResource:
    """All worker pods."""

    @operation("list_pods", "All worker pods, sorted by name.", list[records.Pod])
    def on_get(self, req: Request, resp: Response) -> None:
        """List worker pods with their run, rank and the state that their agents reported."""
        active = (
            Rank.select(Rank.worker, Rank.run, Rank.rank, Rank.assignment)
            .join(Run)
            .where(Run.state.in_(ACTIVE_STATES), Rank.attempt == Run.attempt)
            .order_by(Rank.assigned_at)
        )
        ranks = {rank.worker: rank for rank in active}
        agents = {worker.name: worker for worker in Worker.select()}
        pods = []
        for pod in Pod.select().order_by(Pod.name):
            rank, agent = ranks.get(pod.name), agents.get(pod.name)
            if agent is not None and not is_same_pod(pod.uid, agent.pod_uid):
                agent = None
            pods.append(
                records.Pod(
                    name=pod.name,
                    # The original API has the text of a Python dictionary here.
                    labels=str(pod.labels),
                    phase=pod.phase,
                    ip=pod.ip,
                    node=pod.node,
                    run_id=rank.run_id if rank else None,
                    rank=rank.rank if rank else None,
                    cpus=tuple(rank.assignment.get("cpus", ())) if rank else (),
                    state=cast("records.AgentState", agent.state) if agent else None,
                    fork_server=agent.fork_server if agent else False,
                    seen_at=seconds_to_text(agent.seen_at) if agent else None,
                )
            )
        resp.media = pods
