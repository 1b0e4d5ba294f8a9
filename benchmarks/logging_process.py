"""The process that ``benchmarks.loggers`` measures: a loss goes to one logger after another."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from lightning.pytorch.loggers import CSVLogger
from mlflow import MlflowClient
from torch.utils.tensorboard import SummaryWriter

from benchmarks.measure import alternate, cost
from mlbench import Tracker

_ROUNDS = 9
_LOSS = 0.3123456789


def main(folder: Path, agent: str, server: str) -> None:
    """Print the figures as JSON."""
    tracker = Tracker()
    writer = SummaryWriter(str(folder / "events"))
    csv = CSVLogger(folder)
    measures = {
        "MLBench: tracker.log": cost(20_000, lambda step: tracker.log(loss=_LOSS, step=step)),
        "Lightning's CSVLogger": cost(2_000, lambda step: csv.log_metrics({"loss": _LOSS}, step)),
        "TensorBoard: SummaryWriter.add_scalar": cost(
            2_000, lambda step: writer.add_scalar("loss", _LOSS, step), writer.flush
        ),
        "MLflow's client to MLBench's agent": cost(200, _mlflow(agent)),
        "MLflow's client to MLflow's server": cost(100, _mlflow(server)),
    }
    figures = alternate(_ROUNDS, "µs/value", measures)
    print(json.dumps([asdict(figure) for figure in figures]))


def _mlflow(uri: str) -> Callable[[int], object]:
    client = MlflowClient(uri)
    run_id = client.create_run("0").info.run_id
    return lambda step: client.log_metric(run_id, "loss", _LOSS, step=step)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
