"""What the pool and the task allow of an order, and how the rest is refused."""

import re
from typing import Any

import pytest

from master.errors import BadFieldError
from master.feasibility import check
from master.orders import RunOrder
from master.settings import Limits

LIMITS = Limits(workers=4, cpus=2)


def order(**fields: Any) -> RunOrder:
    return RunOrder.model_validate({"name": "a"} | fields)


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
        check(order(**fields), LIMITS)
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
        check(order(**fields), Limits(gpus=1))
    assert refused.value.description is not None
    assert refused.value.description.startswith(message)


def test_what_a_larger_pool_gives() -> None:
    limits = Limits(workers=8, cpus=4, bandwidth=500, gpus=1, pool="kubernetes")
    wanted = order(num_workers=8, num_cpus=4, max_bandwidth=500, gpu_enabled=True)
    check(wanted, limits)
    assert wanted.wanted_bandwidth(limits) == 500
    with pytest.raises(BadFieldError) as refused:
        check(order(max_bandwidth=501), limits)
    assert refused.value.description == "max_bandwidth: at most 500 Mbit/s (not 501)"


def test_mlbenchs_own_bandwidth_asks_for_nothing_where_there_is_no_limit() -> None:
    """Its client sends 1000 whenever its user says nothing."""
    check(order(max_bandwidth="1000"), LIMITS)
    assert order(max_bandwidth=1000).wanted_bandwidth(LIMITS) is None
    assert order(max_bandwidth=1000).wanted_bandwidth(Limits(bandwidth=2000)) == 1000


CLUSTER = Limits(workers=8, cpus=1.5, pool="kubernetes")


@pytest.mark.parametrize(
    "fields", [{"num_cpus": 0.5}, {"num_cpus": 1.5}, {"max_bandwidth": 20}, {"max_bandwidth": 1e5}]
)
def test_a_cluster_gives_parts_of_cores_and_any_bandwidth(fields: dict[str, Any]) -> None:
    check(order(**fields), CLUSTER)


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
        check(order(**fields), CLUSTER)
    assert refused.value.description == message


def test_a_script_of_the_users_machine_is_not_in_a_cluster() -> None:
    script = order(
        image_name="custom_image", custom_image_name="local", custom_image_command="python a.py"
    )
    check(script, LIMITS)
    with pytest.raises(BadFieldError, match="400") as refused:
        check(script, CLUSTER)
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
