"""Attributes of a run from its request, its reported settings and its machines."""

from dataclasses import replace
from typing import Any

import pytest

from mlbench.contract.records import GitState, ReportedMachine, Target
from mlbench.evaluation.inputs import RankRow, RunRow
from mlbench.evaluation.run_attributes import attributes_of
from tests.mlbench.evaluation.making import USUAL_ORDER, make_result, make_run

_VERSIONS: dict[str, Any] = {"python": "3.11.7", "mlbench": "0.1.0"}
_VERSIONS |= {"packages": {"torch": "2.13.0"}, "code": "train.py 3f2a91c8b0d1"}
_GIT = GitState("c0ffee", dirty=True, root="/src")
_GPUS = ("H100", "H100")
_MACHINE = ReportedMachine(cpu_model="EPYC", gpus=_GPUS, gpu_driver="570", git=_GIT, **_VERSIONS)


def facts(run: RunRow, *machines: ReportedMachine, **fields: Any) -> dict[str, str]:
    ranks = [RankRow(attempt=1, rank=rank, machine=one) for rank, one in enumerate(machines)]
    return attributes_of(run, ranks, make_result(run.id, run.num_workers, **fields))


def test_a_run_that_reported_nothing() -> None:
    run = make_run(num_cpus=2.0, benchmark="digits", args={"batch-size": "64", "seed": "3"})
    assert facts(run, target=None) == {
        **USUAL_ORDER,
        **{"num_workers": "2", "processes_per_worker": "1", "num_cpus": "2", "batch_size": "64"},
        **{"working_dir": "none", "deadline_seconds": "none", "max_restarts": "0"},
        **{"origin": "here", "division": "closed", "backend": "gloo", "run_all_nodes": "true"},
    }


def test_reported_settings_replace_requested_ones() -> None:
    settings: dict[str, Any] = {"batch_size": 128, "compile": False, "compression": None}
    settings |= {"learning_rate": 1e-4, "target": 97.0, "seed": 1}
    settings |= {"data": "digits", "data_sha256": "d1"}
    run = make_run(args={"batch_size": "64"}, target=Target("acc", 97.0), settings=settings)
    values = facts(run, target=Target("val_loss", 0.1, lower_is_better=True))
    assert (values["target"], values["own_target"]) == ("val_loss <= 0.1", "acc >= 97")
    assert (values["batch_size"], values["data"], values["data_sha256"]) == ("128", "digits", "d1")
    assert (values["compile"], values["compression"]) == ("false", "none")
    assert values["learning_rate"] == "0.0001"
    assert "seed" not in values
    other = {"batch_size": 128.0, "dataset": "epsilon", "data_sha256": None}
    values = facts(make_run(settings=other))
    assert (values["batch_size"], values["data"]) == ("128", "epsilon")
    assert "data_sha256" not in values


def test_values_of_several_machines_are_listed_once() -> None:
    other = replace(_MACHINE, cpu_model="Xeon", gpus=("A100",), git=None)
    found = facts(make_run(), _MACHINE, _MACHINE, other)
    assert (found["cpu"], found["gpus"]) == ("EPYC; Xeon", "A100; H100")
    assert (found["torch"], found["python"], found["mlbench"]) == ("2.13.0", "3.11.7", "0.1.0")
    assert (found["git_commit"], found["git_dirty"]) == ("c0ffee", "true")
    assert found["code"] == "train.py 3f2a91c8b0d1"
    little = facts(make_run(), ReportedMachine())
    assert little["gpus"] == "none"
    assert not {"cpu", "torch", "git_commit", "git_dirty", "code"} & set(little)


@pytest.mark.parametrize(
    ("cores", "said"),
    [([], None), ([[], []], None), ([[0], [1]], "no"), ([[0], [1], [0]], "3 workers on 2 cores")],
)
def test_shared_cores_are_oversubscribed(cores: list[list[int]], said: str | None) -> None:
    ranks = [RankRow(attempt=1, rank=i, assignment={"cpus": one}) for i, one in enumerate(cores)]
    found = attributes_of(make_run(), ranks, make_result(1))
    assert found.get("oversubscribed") == said


def test_options_of_mlbench_are_part_of_a_command() -> None:
    own: dict[str, Any] = {"benchmark": "", "image": "local", "command": "./train"}
    assert facts(make_run(**own))["command"] == "./train"
    told = facts(make_run(**own, light_target=True, gpu_enabled=True))
    assert told["command"] == "./train --gpu --light"
