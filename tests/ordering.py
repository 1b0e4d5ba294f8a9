"""Ordering runs of the quick task ``steps``."""

from mlbench import ApiClient
from mlbench.client import Run


def order_steps(
    client: ApiClient, name: str, *, num_workers: int = 2, max_restarts: int = 0, **args: object
) -> Run:
    """Order a run with arguments of the task, such as ``steps=200`` and ``rate=1000``."""
    order = client.create_run(
        name,
        num_workers,
        benchmark="steps",
        max_restarts=max_restarts,
        args={key: str(value) for key, value in args.items()},
    )
    return order.result().value
