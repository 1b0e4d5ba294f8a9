"""JAX and TensorFlow train like PyTorch, step by step."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from mlbench.contract import names
from tests.support.libsvm_files import make
from tests.support.ranks import Rank, assert_stopped_at, run_ranks, start_ranks

pytestmark = pytest.mark.slow

_STEPS = 20


@dataclass(frozen=True)
class Trained:
    """Command of a task, its target, and two ranks that reached it in PyTorch."""

    command: tuple[str, ...]
    goal: float
    ranks: list[Rank]


@pytest.fixture
def trained(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Trained:
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "made").write_bytes(make(1000, 20).text())
    of_linear = ("--dataset=made", "--batch-size=50", "--record-every=1")
    is_linear = request.param == "linear"
    command = ("-m", f"mlbench_worker.tasks.{request.param}", *(of_linear if is_linear else ()))
    monkeypatch.setenv(names.ENV_DATASETS, str(folder))
    return Trained(command, 89 if is_linear else 93, run_ranks(folder / "runs", 2, *command))


@pytest.mark.parametrize(
    ("trained", "framework"),
    [("digits_linear", "jax"), ("linear", "tensorflow")],
    indirect=["trained"],
)
def test_the_losses_of_two_workers_equal_those_in_pytorch(
    framework: str, trained: Trained, tmp_path: Path, integrations: str
) -> None:
    command = (*trained.command, f"--framework={framework}")
    ranks = start_ranks(tmp_path, 2, *command, python=integrations)
    for rank in ranks:
        _, errors = rank.output()
        assert rank.returncode == 0, errors
    accuracies = assert_stopped_at(trained.goal, ranks)
    assert accuracies == trained.ranks[0].series(names.VAL_ACCURACY)
    for rank, other in zip(ranks, trained.ranks, strict=True):
        losses, expected = (worker.series(names.TRAIN_LOSS)[:_STEPS] for worker in (rank, other))
        assert losses == pytest.approx(expected, abs=1e-4)
        assert rank.series(names.SAMPLES)[-1] == other.series(names.SAMPLES)[-1]
        *_, computing = rank.series(names.phase_metric("compute"))
        *_, training = rank.series(names.TRAIN_SECONDS)
        assert 0.3 * training < computing < training
        assert not rank.series(names.phase_metric("forward"))
    [settings] = ranks[0].stated("settings")
    assert settings["framework"] == framework
    assert settings[framework][0].isdecimal(), "the framework's version"


@pytest.mark.parametrize(("framework", "apart"), [("jax", 1e-6), ("tensorflow", 1e-4)])
def test_networks_train_like_in_pytorch(
    framework: str, apart: float, tmp_path: Path, integrations: str
) -> None:
    command = ("-m", "mlbench_frameworks.tests.framework_steps", framework)
    [rank] = start_ranks(tmp_path, 1, *command, python=integrations)
    output, errors = rank.output(seconds=300)
    assert rank.returncode == 0, errors
    assert output
    for line in output.splitlines():
        losses, scores = map(float, line.split())
        assert losses < apart
        assert scores < 100 * apart
