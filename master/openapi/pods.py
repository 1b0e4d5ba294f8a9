"""The operations on pods."""

from typing import Literal

from master.openapi.operation import Answer, Operation, Time, View
from master.resources.pods import PodsResource


class Pod(View):
    """A worker pod."""

    name: str
    labels: str
    """A Python dictionary's text, as MLBench wrote it."""
    phase: str
    """As Kubernetes names it, such as ``Running``."""
    ip: str
    node: str
    run_id: int | None
    """The active run that it works for."""
    rank: int | None
    """Its rank in that run."""
    state: Literal["idle", "running", "exited"] | None
    """What its agent said last that it does; None before it was heard of."""
    seen_at: Time | None
    """When its agent was last heard of."""


OPERATIONS = (
    Operation(
        PodsResource,
        "get",
        "/api/pods/",
        name="list_pods",
        answer=Answer(
            "All worker pods, by name.",
            list[Pod],
            [
                {
                    "name": "local-mlbench-worker-0",
                    "labels": "{'app': 'mlbench', 'component': 'worker'}",
                    "phase": "Running",
                    "ip": "127.0.0.1",
                    "node": "laptop",
                    "run_id": 1,
                    "rank": 0,
                    "state": "running",
                    "seen_at": "2026-03-01T09:21:29.760112Z",
                }
            ],
        ),
    ),
)
