"""Hugging Face transformers and accelerate: what their own records say is what is recorded."""

import json
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.home import Home
from tests.integrations.trainings import train

pytestmark = pytest.mark.slow


def test_all_that_a_trainer_of_transformers_logs_is_recorded(
    stack: Home, integrations: str, tmp_path: Path
) -> None:
    trained = train(stack, "transformers", f"{integrations} train.py", tmp_path)
    with ApiClient.from_home(stack) as client:
        result = client.get_result(trained.run.id).result().value
        manifest = client.get_manifest(trained.run.id).result().value

    for rank in (0, 1):
        history = json.loads(trained.said[rank].splitlines()[-1])
        for metric in ("loss", "learning_rate", "grad_norm", "eval_loss", "train_runtime"):
            logged = [(entry["step"], entry[metric]) for entry in history if metric in entry]
            assert logged
            assert trained.values(metric, rank) == logged
    assert (result.epochs, result.samples) == (3, 720)
    assert {"data", "forward", "backward", "optimizer", "evaluation"} <= result.phases.keys()
    assert manifest.settings is not None
    assert manifest.settings["learning_rate"] == 0.01
    assert manifest.settings["batch_size"] == 8
    assert "adam_beta1" not in manifest.settings


def test_all_that_an_accelerator_logs_is_recorded_on_every_rank(
    stack: Home, integrations: str, tmp_path: Path
) -> None:
    trained = train(stack, "accelerate", f"{integrations} train.py", tmp_path)
    with ApiClient.from_home(stack) as client:
        result = client.get_result(trained.run.id).result().value
        manifest = client.get_manifest(trained.run.id).result().value

    for rank in (0, 1):
        printed = [tuple(map(float, line.split())) for line in trained.said[rank].splitlines()]
        assert trained.values("val_loss", rank) == printed
        steps, _ = zip(*trained.values("train_loss", rank), strict=True)
        assert steps == tuple(range(1, 1001))
    assert (result.epochs, result.samples) == (8, 32_000)
    assert result.time_to_accuracy is not None
    assert manifest.settings == {"learning_rate": 0.1, "batch_size": 32}
