"""Run a script unchanged, and write down each value that MLflow's client sends, as it knows it.

``python -m tests.integrations.observed_mlflow OUT SCRIPT``
"""

import json
import os
import runpy
import sys
from collections.abc import Iterable
from typing import Any

from mlflow.entities import Metric
from mlflow.store.tracking.rest_store import RestStore


def main(out: str, script: str) -> None:
    """Run the script."""
    file = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(metrics: Iterable[Metric]) -> None:
        for one in metrics:
            line = json.dumps([one.key, one.value, one.timestamp, one.step])
            os.write(file, line.encode() + b"\n")

    log_metric, log_batch = RestStore.log_metric, RestStore.log_batch

    def noted_metric(self: RestStore, run_id: str, metric: Metric) -> Any:
        note([metric])
        return log_metric(self, run_id, metric)

    def noted_batch(
        self: RestStore, run_id: str, metrics: Iterable[Metric], *more: Any, **rest: Any
    ) -> Any:
        note(metrics)
        return log_batch(self, run_id, metrics, *more, **rest)

    RestStore.log_metric, RestStore.log_batch = noted_metric, noted_batch
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
