"""PyTorch Lightning: scripts without any call of MLBench are recorded in full."""

import csv
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.local.home import Home
from tests.integrations.trainings import Values, follow
from tests.support.known import known
from tests.support.metrics_file import lines, metrics
from tests.support.pages import order_as_printed
from tests.support.processes import run_text

pytestmark = pytest.mark.slow

# Trains Lightning's demo model. The last Trainer lacks an attribute that the callback needs.
_MISFIT = """
import os
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger
from mlbench_callbacks.lightning import MLBenchCallback, MLBenchLogger

options = dict(accelerator="cpu", max_epochs=1, limit_train_batches=2, limit_val_batches=0,
               enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1)

class Model(BoringModel):
    def training_step(self, batch, number):
        loss = super().training_step(batch, number)
        self.log("loss", loss["loss"])
        return loss

# The entry point adds a second callback to the explicit one.
both = Trainer(**options, logger=MLBenchLogger(), callbacks=[MLBenchCallback()])
both.fit(Model())
path = os.environ.pop("MLBENCH_METRICS_FILE")
outside = Trainer(**options, logger=False)
assert not any(isinstance(one, MLBenchCallback) for one in outside.callbacks)
os.environ["MLBENCH_METRICS_FILE"] = path
del Trainer.early_stopping_callbacks
misfit = Trainer(**options, logger=False)
misfit.fit(Model())
assert misfit.global_step == 2
"""

_TWO_TRAINERS = """
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

class Model(BoringModel):
    def training_step(self, batch, number):
        loss = super().training_step(batch, number)
        self.log("loss", loss["loss"])
        self.logger.experiment.add_scalar("mine", number, number)
        return loss

for _ in range(2):
    Trainer(accelerator="cpu", max_epochs=1, limit_train_batches=4, limit_val_batches=0,
            enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1).fit(Model())
"""


def test_every_value_step_and_phase_of_a_trainer_is_recorded(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path
) -> None:
    run = order_as_printed(client, stack, "lightning", tmp_path, venv=integrations)
    trained = follow(client, stack, run)

    for metric in ("train_loss", "val_accuracy"):
        logged = _logged(tmp_path / "lightning_logs/version_0/metrics.csv", metric)
        assert len(logged) >= 5
        assert trained.values(metric, rank=0) == logged
        assert len(trained.values(metric, rank=1)) == len(logged)
    # The value is only in TensorBoard's files, so it shows that they were read.
    assert "hp_metric @ 0" in trained.series
    assert trained.values("train_loss", 0) != trained.values("train_loss", 1)
    epochs = len(trained.series["epoch @ 0"])
    assert (trained.result.epochs, trained.result.samples) == (epochs, epochs * 1440)
    assert {"data", "forward", "backward", "optimizer", "evaluation"} <= {*trained.result.phases}
    assert trained.result.target is not None
    assert (trained.result.target.metric, trained.result.target.value) == ("val_accuracy", 0.9)
    assert known(trained.result.time_to_target).training_seconds is not None
    assert trained.manifest.settings == {"learning_rate": 0.01, "batch_size": 32}


def test_values_are_recorded_once_and_an_incompatible_trainer_continues(
    integrations: str, tmp_path: Path
) -> None:
    path = tmp_path / "metrics.jsonl"
    done = run_text(
        [integrations, "-c", _MISFIT],
        env={**os.environ, names.ENV_METRICS_FILE: str(path)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    [message] = [line for line in done.stderr.splitlines() if line.startswith("mlbench: ")]
    assert "on_train_start has failed: AttributeError: " in message
    assert "lightning 2.6" in message
    assert [line["step"] for line in lines(path) if "loss" in line.get("metrics", {})] == [
        *(0, 1),  # the first Trainer
        *(0, 1),  # the last Trainer: its logger still works
    ]
    assert [m["samples"] for m in metrics(path) if "samples" in m][-1] == 2
    assert not (tmp_path / "lightning_logs").exists()


def test_values_of_two_trainers_in_one_process_are_recorded_once(
    integrations: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    recorder = [sys.executable, "-m", "mlbench", "record", "--", integrations, "-c", _TWO_TRAINERS]
    environ = {**os.environ, names.ENV_HOME: str(home)}
    done = run_text(recorder, env=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [path] = home.glob("recorded/*/metrics.jsonl")
    recorded = Counter(name for values in metrics(path) for name in values)
    assert recorded["loss"] == 8
    assert (recorded["mine"], recorded["version_1/mine"]) == (4, 4)
    assert not {"version_1/loss", "version_1/epoch"} & recorded.keys()


def _logged(path: Path, metric: str) -> Values:
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return [(float(row["step"]), float(row[metric])) for row in rows if row[metric]]
