"""Orders: what may be asked of a run, in MLBench's words and ours, and what is refused."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from master.errors import BadFieldError
from master.orders import RunOrder, check_feasible
from master.settings import Limits

LIMITS = Limits(workers=4, cpus=2)
CUSTOM = {
    "image_name": "custom_image",
    "custom_image_name": "localhost/mine:latest",
    "custom_image_command": "python main.py --rank {rank}",
}


def order(**fields: Any) -> RunOrder:
    return RunOrder.model_validate({"name": "a"} | fields)


def test_a_name_is_enough() -> None:
    found = order()
    assert found.task is not None
    assert found.task.name == "digits"
    assert (found.num_workers, found.num_cpus, found.all_args) == (2, None, {})
    assert (found.backend_name, found.runs_on_all) == ("gloo", True)
    check_feasible(found, LIMITS)


@pytest.mark.parametrize("name", ["a", "7", "digits-2", "a" * 40, "a--b"])
def test_names_fit_kubernetes(name: str) -> None:
    assert order(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a_b", "a.b", "a b", "ü", "a\n", "a" * 41, "a\x00", None, []]
)
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(ValidationError, match="name"):
        order(name=name)


@pytest.mark.parametrize(
    "fields",
    [
        {"benchmark": "nonsense"},
        {"num_workers": 0},
        {"num_workers": -1},
        {"num_workers": 1.5},
        {"num_workers": "many"},
        {"num_workers": float("nan")},
        {"num_cpus": 0},
        {"max_restarts": -1},
        {"max_restarts": 101},
        {"args": []},
        {"args": {"--a": "1"}},
        {"args": {"a b": "1"}},
        {"args": {"a\n": "1"}},
        {"args": {"": "1"}},
        {"args": {"a": None}},
        {"args": {"a": ["1"]}},
        {"args": {"a": "nul \x00"}},
        {"args": {"a": "x" * 1025}},
        {"args": {f"a{i}": "1" for i in range(101)}},
        {"args": "no JSON"},
        {"args": "[1]"},
        {"unknown": 1},
        {"num_cpus": "nan"},
        {"max_bandwidth": 0},
        {"max_bandwidth": float("inf")},
        {"seed": -1},
        {"seed": 2**32},
        {"queue": "perhaps"},
        {"gpu_enabled": 2},
        {"image_name": "mlbench/nothing-of-ours:latest"},
        {"image_name": "mlbench/tensorflow-cifar10-resnet:latest"},
        {"image_name": "mlbench/pytorch-backend-benchmark:"},
        {"image_name": "mlbench/pytorch-backend-benchmark:la/test"},
        {"image_name": "mlbench/pytorch-backend-benchmark:latest\n"},
        {"image_name": "steps:latest"},
        {"benchmark": "mlbench/pytorch-backend-benchmark"},
        {"benchmark": "custom_image"},
        {"benchmark": "steps", "image_name": "digits"},
        {"custom_image_command": "python main.py"},
        {"custom_backend": "mine"},
        {"custom_image_name": "localhost/mine:latest"},
        {"args": {"a": "1"}, **CUSTOM},
        {"working_dir": "/tmp"},
        {"working_dir": "here", **CUSTOM},
        {"working_dir": "", **CUSTOM},
        {"working_dir": "/nul\x00", **CUSTOM},
        {"working_dir": "/" + 4096 * "x", **CUSTOM},
        {"deadline_seconds": 0},
        {"deadline_seconds": -1},
        *({field: True} for field in ("deadline_seconds", "num_workers", "num_cpus", "seed")),
        {"deadline_seconds": "soon"},
        {"deadline_seconds": float("inf")},
    ],
)
def test_wrong_fields_are_named(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        order(**fields)


def test_numbers_among_the_arguments_are_texts() -> None:
    assert order(args={"epochs": 3, "lr": 0.1}).args == {"epochs": "3", "lr": "0.1"}


@pytest.mark.parametrize("missing", ["custom_image_name", "custom_image_command"])
def test_a_custom_image_needs_its_name_and_its_command(missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        order(**{key: value for key, value in CUSTOM.items() if key != missing})


@pytest.mark.parametrize("command", ["", "  ", "'", 'python "', "a\x00", "x" * 4097])
def test_a_command_can_be_split_into_words(command: str) -> None:
    with pytest.raises(ValidationError, match="custom_image_command"):
        order(**CUSTOM | {"custom_image_command": command})


def test_what_a_command_of_ones_own_is_given_besides() -> None:
    found = order(working_dir="/home/me/my code", seed="7", deadline_seconds="0.5", **CUSTOM)
    check_feasible(found, LIMITS)
    assert (found.working_dir, found.seed, found.deadline_seconds) == ("/home/me/my code", 7, 0.5)
    assert found.all_args == {}


@pytest.mark.parametrize(
    ("fields", "backend", "on_all"),
    [
        ({}, "gloo", True),
        ({"backend": "GLOO"}, "gloo", True),
        ({"backend": "NCCL", "run_all_nodes": "false"}, "nccl", True),
        ({"backend": "MPI", "run_all_nodes": "true"}, "mpi", False),
        ({"backend": "custom_backend", "custom_backend": "mine"}, "mine", False),
        (
            {"backend": "custom_backend", "custom_backend": "mine", "run_all_nodes": "true"},
            "mine",
            True,
        ),
    ],
)
def test_who_runs_the_command(fields: dict[str, str], backend: str, on_all: bool) -> None:
    found = order(**CUSTOM | fields)
    check_feasible(found, LIMITS)
    assert found.task is None
    assert (found.backend_name, found.runs_on_all) == (backend, on_all)


def test_seed_and_light_goal_are_arguments_of_the_task() -> None:
    found = order(benchmark="digits", seed=7, light_target=True, args={"epochs": 3})
    check_feasible(found, LIMITS)
    assert found.all_args == {"goal": "90", "seed": "7", "epochs": "3"}
    assert order(seed=7, args={"seed": 7}).all_args == {"seed": "7"}


@pytest.mark.parametrize(
    ("fields", "name", "args"),
    [
        ({"benchmark": "ridge-regression"}, "ridge-regression", {"model": "ridge"}),
        (
            {"benchmark": "linear-svm", "light_target": True, "args": {"model": "svm"}},
            "linear-svm",
            {"model": "svm", "goal": "80"},
        ),
        (
            {"image_name": "mlbench/pytorch-cifar10-resnet20-all-reduce:latest", "seed": 3},
            "cifar10-resnet",
            {"exchange": "flat", "seed": "3"},
        ),
        (
            {"image_name": "mlbench/pytorch-cifar10-resnet20-ddp"},
            "cifar10-resnet",
            {"exchange": "ddp"},
        ),
        (
            {"image_name": "mlbench/pytorch-epsilon-logistic-regression-all-reduce:v2_1.0-rc"},
            "logistic-regression",
            {"model": "logistic"},
        ),
        ({"image_name": "mlbench/pytorch-backend-benchmark:latest"}, "communication", {}),
        ({"image_name": "steps"}, "steps", {}),
    ],
)
def test_what_a_name_stands_for(fields: dict[str, Any], name: str, args: dict[str, str]) -> None:
    found = order(**fields)
    check_feasible(found, LIMITS)
    assert found.task is not None
    assert (found.task.name, found.all_args, found.is_custom) == (name, args, False)


@pytest.mark.parametrize(
    ("fields", "backend", "args"),
    [
        ({}, "gloo", {}),
        ({"backend": "GLOO"}, "gloo", {"backend": "gloo"}),
        ({"backend": "MPI"}, "mpi", {"backend": "mpi"}),
        ({"args": {"backend": "mpi"}}, "mpi", {"backend": "mpi"}),
        ({"backend": "custom_backend", "custom_backend": "mpi"}, "mpi", {"backend": "mpi"}),
        (
            {"backend": "NCCL", "gpu_enabled": "true"},
            "nccl",
            {"backend": "nccl", "device": "cuda"},
        ),
        ({"gpu_enabled": "true"}, "gloo", {"device": "cuda"}),
        ({"backend": "GLOO", "benchmark": "steps"}, "gloo", {}),
    ],
)
def test_a_task_is_told_its_backend_and_device_on_every_rank(
    fields: dict[str, Any], backend: str, args: dict[str, str]
) -> None:
    found = order(**fields)
    check_feasible(found, Limits(gpus=1))
    assert (found.backend_name, found.all_args) == (backend, args)
    assert found.runs_on_all


def test_a_forms_texts_are_understood() -> None:
    found = order(
        num_workers="3", num_cpus="2.0", gpu_enabled="false", queue="True", args='{"lr": 0.1}'
    )
    assert (found.num_workers, found.num_cpus, found.gpu_enabled) == (3, 2.0, False)
    assert found.queue
    assert found.args == {"lr": "0.1"}


# --- What the pool and the task allow ---


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_workers": 5}, r"num_workers: at most 4 \(not 5\)"),
        ({"num_cpus": 3}, r"num_cpus: .* at most 2 cores \(not 3\)"),
        ({"num_cpus": 1.5}, r"num_cpus: whole cores only \(not 1.5\)"),
        ({"max_bandwidth": 20}, "max_bandwidth: .* cannot be limited"),
        ({"gpu_enabled": True}, "gpu_enabled: .* no GPU"),
        ({"backend": "NCCL"}, "backend: nccl needs GPUs: workers here have none; use gloo"),
        ({"args": {"backend": "nccl"}}, "backend: nccl needs GPUs"),
        ({"backend": "ucc"}, r"backend: digits runs with gloo, nccl, mpi here \(not ucc\)"),
        (
            {"benchmark": "steps", "backend": "MPI"},
            r"backend: steps runs with gloo here \(not mpi\)",
        ),
        ({"benchmark": "ridge-regression", "light_target": True}, "light_target: ridge-regression"),
        (
            {"benchmark": "logistic-regression", "args": {"model": "svm"}},
            r"args.model: logistic-regression says logistic \(not svm\); leave it out",
        ),
        ({"backend": "GLOO", "args": {"backend": "mpi"}}, r"args.backend: backend says gloo"),
        ({"seed": 7, "args": {"seed": 8}}, r"args.seed: seed says 7 \(not 8\)"),
        ({"light_target": True, "args": {"goal": 95}}, r"args.goal: light_target says 90"),
        (
            {"image_name": "mlbench/pytorch-cifar10-resnet20-ddp", "args": {"exchange": "flat"}},
            r"args.exchange: image_name says ddp \(not flat\)",
        ),
        ({"benchmark": "steps", "light_target": True}, "light_target: steps has no light goal"),
        ({"benchmark": "steps", "seed": 1}, "seed: steps takes no seed"),
    ],
)
def test_no_more_is_given_than_there_is(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadFieldError) as refused:
        check_feasible(order(**fields), LIMITS)
    assert refused.value.description is not None
    assert re.match(message, refused.value.description)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"backend": "NCCL"}, "backend: nccl needs GPUs: say gpu_enabled=true too"),
        ({"benchmark": "steps", "gpu_enabled": True}, "gpu_enabled: steps needs no GPU"),
        ({"gpu_enabled": True, "args": {"device": "cpu"}}, "args.device: gpu_enabled says cuda"),
    ],
)
def test_what_is_refused_where_there_are_gpus(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadFieldError) as refused:
        check_feasible(order(**fields), Limits(gpus=1))
    assert refused.value.description is not None
    assert refused.value.description.startswith(message)


def test_what_a_larger_pool_gives() -> None:
    limits = Limits(workers=8, cpus=4, bandwidth=500, gpus=1, pool="kubernetes")
    wanted = order(num_workers=8, num_cpus=4, max_bandwidth=500, gpu_enabled=True)
    check_feasible(wanted, limits)
    assert wanted.wanted_bandwidth(limits) == 500
    with pytest.raises(BadFieldError) as refused:
        check_feasible(order(max_bandwidth=501), limits)
    assert refused.value.description == "max_bandwidth: at most 500 Mbit/s (not 501)"


def test_mlbenchs_own_bandwidth_asks_for_nothing_where_there_is_no_limit() -> None:
    """Its client sends 1000 whenever its user says nothing."""
    check_feasible(order(max_bandwidth="1000"), LIMITS)
    assert order(max_bandwidth=1000).wanted_bandwidth(LIMITS) is None
    assert order(max_bandwidth=1000).wanted_bandwidth(Limits(bandwidth=2000)) == 1000


CLUSTER = Limits(workers=8, cpus=1.5, pool="kubernetes")


@pytest.mark.parametrize(
    "fields", [{"num_cpus": 0.5}, {"num_cpus": 1.5}, {"max_bandwidth": 20}, {"max_bandwidth": 1e5}]
)
def test_a_cluster_gives_parts_of_cores_and_any_bandwidth(fields: dict[str, Any]) -> None:
    check_feasible(order(**fields), CLUSTER)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_cpus": 1.75}, "num_cpus: a worker here has at most 1.5 cores (not 1.75)"),
        ({"num_cpus": 0.001}, "num_cpus: at least 0.01 cores (not 0.001)"),
        ({"max_bandwidth": 0.01}, "max_bandwidth: at least 0.1 Mbit/s (not 0.01)"),
    ],
)
def test_what_a_cluster_refuses(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadFieldError) as refused:
        check_feasible(order(**fields), CLUSTER)
    assert refused.value.description == message


def test_a_script_of_the_users_machine_is_not_in_a_cluster() -> None:
    script = order(
        image_name="custom_image", custom_image_name="local", custom_image_command="python a.py"
    )
    check_feasible(script, LIMITS)
    with pytest.raises(BadFieldError, match="400") as refused:
        check_feasible(script, CLUSTER)
    assert refused.value.description is not None
    assert "name an image" in refused.value.description
    assert "--image" in refused.value.description


def test_a_clusters_limit_is_the_usual_bandwidth_too() -> None:
    """As in MLBench: what nobody asks for is as much as a worker may have."""
    limited = Limits(bandwidth=100, pool="kubernetes")
    assert order().wanted_bandwidth(limited) == 100
    assert order(max_bandwidth=1000).wanted_bandwidth(limited) == 100, "its client's own default"
    assert order(max_bandwidth=20).wanted_bandwidth(limited) == 20
    assert order().wanted_bandwidth(CLUSTER) is None
