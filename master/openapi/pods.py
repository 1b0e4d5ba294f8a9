"""The operations on pods."""

from master.openapi.operation import Answer, Operation, View
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
                }
            ],
        ),
    ),
)
