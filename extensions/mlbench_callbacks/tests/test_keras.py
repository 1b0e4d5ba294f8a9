"""Keras: the recorded values equal its History, on each backend."""

import json
from pathlib import Path

import pytest

from mlbench import ApiClient
from mlbench.local.home import Home
from tests.integrations.trainings import follow
from tests.support.known import known
from tests.support.pages import script_of
from tests.support.stacks import order_command

pytestmark = pytest.mark.slow

_BACKENDS = ("torch", "jax", "tensorflow")
_SAMPLES = 1440 // 3


def test_the_history_of_a_fit_is_recorded_on_each_backend(
    client: ApiClient, stack: Home, integrations: str, tmp_path: Path
) -> None:
    # Each rank trains alone, with a different backend.
    choose = f"set -- {' '.join(_BACKENDS)}; shift $RANK; KERAS_BACKEND=$1"
    command = f"sh -c '{choose} {integrations} train.py'"
    (tmp_path / "train.py").write_text(script_of("keras"))
    run = order_command(client, "backends", command, num_workers=3, working_dir=str(tmp_path))
    trained = follow(client, stack, run)

    steps = [(epoch + 1) * _SAMPLES // 16 for epoch in range(20)]
    for rank in range(3):
        history = json.loads(trained.logs[rank].splitlines()[-1])
        assert history.keys() == {"loss", "accuracy", "val_loss", "val_accuracy"}
        for metric, values in history.items():
            assert trained.values(metric, rank) == list(zip(steps, values, strict=True))
        assert trained.last("samples", rank) == 20 * _SAMPLES
        assert trained.last("evaluation_seconds", rank) > 0
    assert (trained.result.epochs, trained.result.samples) == (20, 20 * 1440)
    assert known(trained.result.target).metric == "val_accuracy"
    assert (trained.manifest.settings or {})["backend"] == "torch"
