"""Hugging Face transformers and accelerate: the recorded values equal the library's logs."""

import json
import os
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.contract import names
from mlbench.local.home import Home
from mlbench_sources.mlbench_core import HOOK
from tests.integrations.trainings import follow
from tests.support.metrics_file import metrics
from tests.support.pages import order_as_printed
from tests.support.processes import run_text

pytestmark = pytest.mark.slow

# One training step per way in which a Trainer chooses where to report.
_REPORTS = """
import os
import torch
from transformers import (
    Seq2SeqTrainingArguments, Trainer, TrainerCallback, TrainingArguments)
from transformers.integrations import MLflowCallback
from mlbench import Tracker
from mlbench_callbacks.transformers import MLBenchCallback

class Model(torch.nn.Linear):
    def forward(self, x):
        return {"loss": super().forward(x).mean()}

class Silent(MLflowCallback):
    def __init__(self): TrainerCallback.__init__(self)
    def setup(self, *_): self._initialized = True
    def on_train_begin(self, *_, **__): pass
    on_log = on_train_end = on_train_begin

def train(name, kind=TrainingArguments, callbacks=(), **more):
    args = kind("out", run_name=name, max_steps=1, logging_steps=1, use_cpu=True,
                disable_tqdm=True, save_strategy="no", **more)
    data = [{"x": torch.ones(2)}]
    Trainer(Model(2, 1), args, train_dataset=data, callbacks=list(callbacks)).train()
    with Tracker() as t:
        t.log({"trained": name})

train("default")
train("derived", Seq2SeqTrainingArguments)
train("none", report_to="none")
train("named", report_to=["mlbench"])
train("with a goal", callbacks=[MLBenchCallback(("loss", -1e9))])
train("by MLflow elsewhere", callbacks=[Silent])
os.environ["MLFLOW_TRACKING_URI"] = "http://mlbench:token@127.0.0.1:1"
train("by MLflow here", callbacks=[Silent])
own = Tracker()
train("own tracker")
"""


def test_all_values_that_a_transformers_trainer_logs_are_recorded(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path
) -> None:
    run = order_as_printed(client, stack, "transformers", tmp_path, venv=integrations)
    trained = follow(client, stack, run)

    for rank in (0, 1):
        history = json.loads(trained.logs[rank].splitlines()[-1])
        for metric in ("loss", "learning_rate", "grad_norm", "eval_loss", "train_runtime"):
            logged = [(entry["step"], entry[metric]) for entry in history if metric in entry]
            assert logged
            assert trained.values(metric, rank) == logged
    assert (trained.result.epochs, trained.result.samples) == (3, 720)
    assert {"data", "forward", "backward", "optimizer", "evaluation"} <= {*trained.result.phases}
    assert trained.manifest.settings is not None
    assert trained.manifest.settings["learning_rate"] == 0.01
    assert trained.manifest.settings["batch_size"] == 8
    assert "adam_beta1" not in trained.manifest.settings


def test_a_trainer_reports_to_mlbench_unless_its_script_opts_out(
    integrations: str, tmp_path: Path
) -> None:
    path = tmp_path / "metrics.jsonl"
    in_a_run = {names.ENV_METRICS_FILE: str(path), names.ENV_AGENT: "here", "PYTHONPATH": str(HOOK)}
    done = run_text([integrations, "-c", _REPORTS], env={**os.environ, **in_a_run}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mlbench: " not in done.stderr
    recorded, losses = {}, 0
    for values in metrics(path):
        losses += "loss" in values
        if "trained" in values:
            recorded[values["trained"]], losses = losses, 0
    assert recorded == {
        "default": 1,
        "derived": 1,
        "none": 0,
        "named": 1,
        "with a goal": 1,
        "by MLflow elsewhere": 1,
        "by MLflow here": 0,
        "own tracker": 0,
    }


def test_all_values_that_an_accelerator_logs_are_recorded_on_every_rank(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path
) -> None:
    run = order_as_printed(client, stack, "accelerate", tmp_path, venv=integrations)
    trained = follow(client, stack, run)

    for rank in (0, 1):
        printed = [tuple(map(float, line.split())) for line in trained.logs[rank].splitlines()]
        assert trained.values("val_loss", rank) == printed
        steps, _ = zip(*trained.values("train_loss", rank), strict=True)
        assert steps == tuple(range(1, 1001))
    assert (trained.result.epochs, trained.result.samples) == (8, 32_000)
    assert trained.result.time_to_target is not None
    assert trained.manifest.settings == {"learning_rate": 0.1, "batch_size": 32}
