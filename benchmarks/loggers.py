"""Cost of logging a value: MLBench's tracker and the loggers of other projects."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Figure, Ratio
from benchmarks.rivals import serving_mlflow
from mlbench.contract import names
from mlbench_sources.http_receiver import (
    HttpReceiver,
)
from mlbench_sources.mlflow import Tracking, variables
from mlbench_worker.agent.sources import Line


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return microseconds per value, of one value a call, all in turn in one process."""
    script = Path(__file__).parents[1] / "scripts" / "get-integrations.sh"
    python = subprocess.check_output([script], text=True).strip()
    with (folder / "agent.jsonl").open("a") as file:

        def append(lines: Sequence[Line]) -> None:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()

        agent = HttpReceiver([Tracking(1, folder).answer], append, print)
        with serving_mlflow(folder) as port:
            agent_url = variables({}, agent)["MLFLOW_TRACKING_URI"]
            words = [python, "-m", "benchmarks.logging_process", str(folder), agent_url]
            printed = subprocess.check_output(
                [*words, f"http://127.0.0.1:{port}"],
                env={**os.environ, names.ENV_METRICS_FILE: str(folder / "metrics.jsonl")},
            )
        agent.close()
    ours, *others = (Figure(**fields) for fields in json.loads(printed))
    ratios = [Ratio(f"as cheap as {other.name}", other.median / ours.median) for other in others]
    return [ours, *others, *ratios]
