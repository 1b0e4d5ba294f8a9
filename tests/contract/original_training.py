"""A training script as MLBench's were: one rank, which reports by MLBench's own tracker.

This runs with the Python that has that tracker, and so imports nothing of ours.
usage: original_training.py user:TOKEN@HOST:PORT RUN RANK HOSTS BACKEND
"""

import sys
from dataclasses import dataclass
from typing import Any

from mlbench_core.api import ApiClient
from mlbench_core.utils import LogMetrics, Tracker


@dataclass
class _Metric:
    name: str


def _goal(name: str, value: float, tracker: Any) -> str | None:
    """Reach the goal in the last epoch."""
    return f"reached {value}" if name == "val_global_Prec@1" and value >= 60 else None


def main() -> None:
    """Report three epochs, and on rank 0 the goal."""
    url, run_id, rank, hosts, backend = sys.argv[1:]
    print(f"rank {rank} of run {run_id} with {backend} on {hosts}")
    # Where there is no Kubernetes it would report nothing.
    LogMetrics.in_cluster = True
    LogMetrics.api = ApiClient(url=url, load_config=False)
    tracker = Tracker([_Metric("Prec@1")], run_id, int(rank), _goal)
    for epoch in range(3):
        tracker.train()
        tracker.batch_start()
        tracker.record_batch_fwd_pass()
        tracker.record_batch_agg()
        tracker.batch_end()
        tracker.record_loss(1 / (epoch + 1), log_to_api=True)
        tracker.validation()
        tracker.record_stat("global_Prec@1", 20.5 * (epoch + 1), log_to_api=True)
        tracker.epoch_end()


if __name__ == "__main__":
    main()
