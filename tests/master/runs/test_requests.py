"""Requests for runs, in the fields of the original MLBench and in ours."""

from typing import Any

import pytest

from mlbench.contract.conversion import InvalidFieldsError, convert
from mlbench_master.errors import BadFieldError
from mlbench_master.runs.admission import validate_against_limits
from mlbench_master.runs.requests import RunRequest, kubernetes_name
from mlbench_master.settings import InstallationLimits
from tests.support.known import known

LIMITS = InstallationLimits(workers=4, cpus=2)
CUSTOM = {"image_name": "custom_image", "custom_image_name": "local"}
CUSTOM["custom_image_command"] = "python main.py --rank {rank}"


MINE = {"backend": "custom_backend", "custom_backend": "mine"}


def order(**fields: Any) -> RunRequest:
    return convert(RunRequest, {"name": "a"} | fields)


def test_a_name_is_enough() -> None:
    found = order()
    assert known(found.task).name == "digits"
    assert (found.num_workers, found.num_cpus, found.all_args) == (2, None, {})
    assert (found.backend_name, found.runs_on_all) == ("gloo", True)
    validate_against_limits(found, LIMITS)


BAD: dict[str, list[Any]] = {
    "name": ["", " ", "a ", " a", "a\n", "a\x00b", "a\x1bb", "a\x85b", "a" * 101, None, []],
    "num_workers": [0, -1, 1.5, "many", float("nan"), True],
    "num_cpus": [0, "nan", True],
    "max_restarts": [-1, 101],
    "max_bandwidth": [0, float("inf")],
    "latency_ms": [0, 10_001, True, "5ms"],
    "loss_percent": [0, 100, "1%"],
    "seed": [-1, 2**32, True],
    "deadline_seconds": [0, -1, True, "soon", float("inf")],
    "queue": ["perhaps", 0, 1],
    "gpu_enabled": [2, 1, 0.0],
    "args": [
        *({"--a": "1"}, {"a b": "1"}, {"a\n": "1"}, {"": "1"}, {"a": None}, {"a": ["1"]}),
        *({"a": "nul \x00"}, {"a": "x" * 1025}, {f"a{i}": "1" for i in range(101)}),
        *([], "no JSON", "[1]"),
    ],
    "benchmark": ["nonsense", "mlbench/pytorch-backend-benchmark", "custom_image"],
    "image_name": [
        *("mlbench/nothing-of-ours:latest", "mlbench/tensorflow-cifar10-resnet:latest"),
        *(f"mlbench/pytorch-backend-benchmark:{tag}" for tag in ("", "la/test", "latest\n")),
        "steps:latest",
    ],
    "custom_image_command": ["python main.py"],
    "custom_image_name": ["localhost/mine:latest"],
    "custom_backend": ["mine", 7],
    "working_dir": ["/tmp"],
    "unknown": [1],
}
BAD_OF_A_CUSTOM_IMAGE: dict[str, list[Any]] = {
    "args": [{"a": "1"}],
    "working_dir": ["here", "", "/nul\x00", "/" + 4096 * "x"],
    "custom_image_command": [None, "", "  ", "''", "'", 'python "', "a\x00", "x" * 4097],
    "custom_image_name": [None],
}


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        *((name, {name: value}) for name, values in BAD.items() for value in values),
        *(
            (name, {**CUSTOM, name: value})
            for name, values in BAD_OF_A_CUSTOM_IMAGE.items()
            for value in values
        ),
        ("benchmark", {"benchmark": "steps", "image_name": "digits"}),
    ],
)
def test_invalid_fields_are_named(field: str, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidFieldsError, match=field):
        order(**fields)


def test_an_unsupported_original_image_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidFieldsError, match="machine translation is not a benchmark here"):
        order(image_name="mlbench/pytorch-wmt16-gnmt-all-reduce:latest")


@pytest.mark.parametrize("name", ["a", "7", "digits-2", "a" * 40, "a--b"])
def test_valid_kubernetes_names_are_unchanged(name: str) -> None:
    assert kubernetes_name(order(name=name).name) == name


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("Name of the run", "name-of-the-run"),
        ("ResNet, 0.1 (é)", "resnet-0-1"),
        ("-a-", "a"),
        ("名前", "run"),
        ("a" * 41, "a" * 33),
        ("A" * 100, "a" * 33),
    ],
)
def test_other_names_get_a_valid_kubernetes_name(name: str, stem: str) -> None:
    made = kubernetes_name(order(name=name).name)
    assert made[:-7] == stem
    assert kubernetes_name(made) == made
    assert made != kubernetes_name(f"{name[:-1]}!"), "different names must not collide"


def test_cores_can_be_kubernetes_quantities() -> None:
    for cores, number in (("2000m", 2), ("500m", 0.5), ("2", 2), (1.5, 1.5)):
        assert order(num_cpus=cores).num_cpus == number
    for wrong in ("m", "0m", "-1m", "1.5m", "2000M"):
        with pytest.raises(InvalidFieldsError, match="num_cpus"):
            order(num_cpus=wrong)


def test_a_custom_command_can_have_folder_seed_and_deadline() -> None:
    found = order(working_dir="/home/me/my code", seed="7", deadline_seconds="0.5", **CUSTOM)
    validate_against_limits(found, LIMITS)
    assert (found.working_dir, found.seed, found.deadline_seconds) == ("/home/me/my code", 7, 0.5)
    assert found.all_args == {}


@pytest.mark.parametrize(
    ("fields", "backend", "on_all"),
    [
        ({}, "gloo", True),
        ({"backend": "GLOO"}, "gloo", True),
        ({"backend": "NCCL", "run_all_nodes": "false"}, "nccl", True),
        ({"backend": "OWN"}, "own", True),
        (MINE, "mine", False),
        (MINE | {"run_all_nodes": "true"}, "mine", True),
    ],
)
def test_backend_of_a_custom_command(fields: dict[str, str], backend: str, on_all: bool) -> None:
    found = order(**CUSTOM | fields)
    validate_against_limits(found, LIMITS)
    assert found.task is None
    assert (found.backend_name, found.runs_on_all) == (backend, on_all)


def test_seed_and_light_target_are_arguments_of_the_task() -> None:
    found = order(benchmark="digits", seed=7, light_target=True, args={"epochs": 3})
    validate_against_limits(found, LIMITS)
    assert found.all_args == {"goal": "90", "seed": "7", "epochs": "3"}
    assert order(seed=7, args={"seed": 7}).all_args == {"seed": "7"}


@pytest.mark.parametrize(
    ("fields", "name", "args"),
    [
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
            {"image_name": "mlbench/pytorch-epsilon-logistic-regression-all-reduce:v2_1.0-rc"},
            "logistic-regression",
            {"model": "logistic"},
        ),
        ({"image_name": "mlbench/pytorch-wikitext2-lstm-all-reduce"}, "wikitext2-lstm", {}),
        ({"image_name": "mlbench/pytorch-backend-benchmark:latest"}, "communication", {}),
        ({"image_name": "steps"}, "steps", {}),
    ],
)
def test_a_benchmark_or_its_image(fields: dict[str, Any], name: str, args: dict[str, str]) -> None:
    found = order(**fields)
    validate_against_limits(found, LIMITS)
    assert (known(found.task).name, found.all_args, found.is_custom) == (name, args, False)


@pytest.mark.parametrize(
    ("fields", "backend", "args"),
    [
        ({}, "gloo", {}),
        ({"backend": "GLOO"}, "gloo", {"backend": "gloo"}),
        ({"backend": "MPI"}, "mpi", {"backend": "mpi"}),
        ({"args": {"backend": "mpi"}}, "mpi", {"backend": "mpi"}),
        ({"backend": "custom_backend", "custom_backend": "mpi"}, "mpi", {"backend": "mpi"}),
        ({"backend": "NCCL", "gpu_enabled": True}, "nccl", {"backend": "nccl", "device": "cuda"}),
        ({"gpu_enabled": "true"}, "gloo", {"device": "cuda"}),
        ({"backend": "GLOO", "benchmark": "steps"}, "gloo", {}),
    ],
)
def test_backend_of_a_task(fields: dict[str, Any], backend: str, args: dict[str, str]) -> None:
    found = order(**fields)
    validate_against_limits(found, InstallationLimits(gpus=1, backends=("gloo", "nccl", "mpi")))
    assert (found.backend_name, found.all_args) == (backend, args)
    assert found.runs_on_all


def test_strings_of_a_form_are_converted() -> None:
    assert order(args={"epochs": 3, "lr": 0.1}).args == {"epochs": "3", "lr": "0.1"}
    form = {"num_workers": "3", "num_cpus": "2.0", "gpu_enabled": "false", "queue": "True"}
    found = order(**form, args='{"lr": 0.1}')
    assert (found.num_workers, found.num_cpus, found.gpu_enabled) == (3, 2.0, False)
    assert found.queue
    assert found.args == {"lr": "0.1"}


# --- What the pool and the task allow ---


CLUSTER = InstallationLimits(workers=8, cpus=1.5, pool="kubernetes")
HERE = InstallationLimits(no_bandwidth="no limits here", no_latency="no sch_netem")
IMAGE = CUSTOM | {"custom_image_name": "me/train:1"}
MPI = CUSTOM | {"backend": "MPI"}
ALONE = {"benchmark": "communication", "num_workers": 1}
LARGE = InstallationLimits(workers=8, cpus=4, bandwidth=500, gpus=1, pool="kubernetes")


def steps(**fields: Any) -> dict[str, Any]:
    return {"benchmark": "steps", **fields}


def args(**values: object) -> dict[str, Any]:
    return {"args": values}


ODD = "is not an option of this task"
NO_GPU = "nccl requires GPUs. Workers here have no GPU, so use gloo"
JAX, BF16 = args(framework="jax"), args(framework="jax", precision="bf16")
SVM = {"benchmark": "logistic-regression", **args(model="svm")}
DDP = {"image_name": "mlbench/pytorch-cifar10-resnet20-ddp", **args(exchange="flat")}
CPU = {"gpu_enabled": True, **args(device="cpu")}


@pytest.mark.parametrize(
    ("limits", "fields", "message"),
    [
        (LIMITS, {"num_workers": 5}, "num_workers: must be at most 4 (got 5). Raise MLB"),
        (LIMITS, {"num_cpus": 3}, "num_cpus: must be at most 2 cores (got 3)"),
        (LIMITS, {"num_cpus": 1.5}, "num_cpus: must be a whole number of cores (got 1.5)"),
        (CLUSTER, {"num_cpus": 1.75}, "num_cpus: must be at most 1.5 cores (got 1.75)"),
        (CLUSTER, {"num_cpus": 0.001}, "num_cpus: must be at least 0.01 cores (got 0.001)"),
        (HERE, {"max_bandwidth": 20}, "max_bandwidth: no limits here. Leave out this setting."),
        (HERE, {"latency_ms": 5}, "latency_ms: no sch_netem. Leave out this setting."),
        (HERE, {"loss_percent": 1}, "loss_percent: no sch_netem. Leave out this setting."),
        (CLUSTER, {"max_bandwidth": 0.01}, "max_bandwidth: must be at least 0.1 Mbit/s (got 0.01)"),
        (LARGE, {"max_bandwidth": 501}, "max_bandwidth: must be at most 500 Mbit/s (got 501)"),
        (LIMITS, {"gpu_enabled": True}, "gpu_enabled: workers here have no GPU"),
        (LIMITS, {"backend": "NCCL"}, f"backend: {NO_GPU}"),
        (LARGE, {"backend": "NCCL"}, "backend: nccl requires GPUs. Also set gpu_enabled=true."),
        (LIMITS, args(backend="nccl"), "backend: nccl requires GPUs"),
        (LIMITS, {"backend": "ucc"}, "backend: digits supports gloo, nccl here (got ucc)"),
        (LARGE, steps(gpu_enabled=True), "gpu_enabled: steps does not use GPUs"),
        (LIMITS, steps(light_target=True), "light_target: steps has no light"),
        (LIMITS, steps(seed=1), "seed: steps does not take a seed"),
        (LIMITS, {"backend": "MPI"}, "backend: digits supports gloo, nccl here (got mpi)"),
        (LIMITS, MPI, "backend: PyTorch supports gloo, nccl here (got mpi)"),
        (LIMITS, ALONE, "num_workers: must be at least 2 for communication (got 1)"),
        (LIMITS, args(**{"learning-rte": 1}), f"args.learning-rte: {ODD}: do you mean learning_"),
        *(
            (LIMITS, args(**{n: 1}), f"args.{n}: {ODD}: do you")
            for n in ("lr", "rate", "num_epochs")
        ),
        (LIMITS, args(nonsense=1), f"args.nonsense: {ODD}: there"),
        (LIMITS, args(epochs="many"), "args.epochs: must be a whole number (got 'many')"),
        (LIMITS, args(epochs="9" * 20), "args.epochs: must be below 2^63"),
        (LIMITS, JAX, "args.framework: jax is not installed here. Install with `pip i"),
        (CLUSTER, JAX, "args.framework: the chart has no image for jax. Install it with --set"),
        (LIMITS, BF16, "args.precision: must be fp32 with framework=jax"),
        (LIMITS, SVM, "args.model: logistic-regression implies logistic (got svm). Leave out one"),
        (LIMITS, {"backend": "GLOO", **args(backend="mpi")}, "args.backend: backend implies gloo"),
        (LIMITS, {"seed": 7, **args(seed=8)}, "args.seed: seed implies 7 (got 8)"),
        (LIMITS, {"light_target": True, **args(goal=95)}, "args.goal: light_target implies 90"),
        (LIMITS, DDP, "args.exchange: image_name implies ddp (got flat)"),
        (LARGE, CPU, "args.device: gpu_enabled implies cuda"),
        (LIMITS, args(device="cuda"), "args.device: cuda requires GPUs. Workers here have no GPU"),
        (LARGE, args(device="cuda"), "args.device: cuda requires GPUs. Also set gpu_enabled=true"),
        # The local path of an image does not exist in a cluster.
        (CLUSTER, CUSTOM, "custom_image_name: workers in a cluster do not have"),
        # Local workers have no containers, so the command would run without its image.
        (LIMITS, IMAGE, "custom_image_name: local workers cannot run images (got me/train:1)"),
    ],
)
def test_requests_over_limits(
    limits: InstallationLimits, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadFieldError) as refused:
        validate_against_limits(order(**fields), limits)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("limits", "fields"),
    [
        (LARGE, {"num_workers": 8, "num_cpus": 4, "max_bandwidth": 500, "gpu_enabled": True}),
        *((CLUSTER, {"num_cpus": cores}) for cores in (0.5, 1.5)),
        *((CLUSTER, {"max_bandwidth": bandwidth}) for bandwidth in (20, 1e5)),
        (LIMITS, {"max_bandwidth": 0.5, "latency_ms": 0.1, "loss_percent": 0.1}),
        (CLUSTER, IMAGE),
        (InstallationLimits(gpus=1), {"args": {"device": "cuda"}}),
        (InstallationLimits(backends=("mpi",)), MPI),
        (InstallationLimits(backends=("mpi",)), CUSTOM),
    ],
)
def test_requests_within_limits(limits: InstallationLimits, fields: dict[str, Any]) -> None:
    validate_against_limits(order(**fields), limits)


def test_the_default_bandwidth_of_the_original_client_is_ignored() -> None:
    """The original client always sends 1000 unless its user sets a bandwidth."""
    validate_against_limits(order(max_bandwidth="1000"), HERE)
    assert order(max_bandwidth=1000).wanted_bandwidth(LIMITS) is None
    assert order(max_bandwidth=1000).wanted_bandwidth(InstallationLimits(bandwidth=2000)) == 1000


def test_the_limit_of_a_cluster_is_the_default_bandwidth() -> None:
    """Like in the original MLBench, runs without a bandwidth get the maximum."""
    limited = InstallationLimits(bandwidth=100, pool="kubernetes")
    assert order().wanted_bandwidth(limited) == 100
    # The original client sends 1000 by default.
    assert order(max_bandwidth=1000).wanted_bandwidth(limited) == 100
    assert order(max_bandwidth=20).wanted_bandwidth(limited) == 20
    assert order().wanted_bandwidth(CLUSTER) is None
