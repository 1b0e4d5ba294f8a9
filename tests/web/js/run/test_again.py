"""``run/again.js``: the order that has a run once more."""

from typing import Any

import pytest

from tests.web.js.conftest import Call

_MODULE = "js/run/again.js"


def _run(**fields: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "name": "digits",
        "benchmark": "digits",
        "args": {},
        "image": "local",
        "command": "python -m mlbench.tasks.digits",
        "working_dir": None,
        "backend": "gloo",
        "run_all_nodes": True,
        "num_workers": 2,
        "num_cpus": None,
        "max_bandwidth": None,
        "gpu_enabled": False,
        "light_target": False,
        "seed": None,
        "deadline_seconds": None,
        "max_restarts": 0,
    }
    return {**usual, **fields}


def _order(compute: Call, **fields: Any) -> Any:
    return compute(_MODULE, "(m, run) => m.toOrder(run)", _run(**fields))


def test_what_says_nothing_is_left_out(compute: Call) -> None:
    expected = {"name": "digits-2", "num_workers": 2, "benchmark": "digits", "queue": True}
    assert _order(compute) == expected


def test_a_benchmark_gets_its_options_and_what_the_order_says_beside_them(compute: Call) -> None:
    args = {"epochs": "3", "backend": "mpi", "seed": "0", "device": "cuda"}
    order = _order(compute, args=args, seed=0, gpu_enabled=True, num_cpus=0.5, max_restarts=1)
    assert order["args"] == {"epochs": "3"}
    assert order["backend"] == "mpi"
    assert (order["seed"], order["gpu_enabled"]) == (0, True)
    assert (order["num_cpus"], order["max_restarts"]) == (0.5, 1)
    # Options that the order says nothing of stay options.
    assert _order(compute, args={"seed": "7", "device": "cuda"})["args"] == {
        "seed": "7",
        "device": "cuda",
    }


@pytest.mark.parametrize(
    ("backend", "on_all", "expected"),
    [
        ("gloo", True, {"backend": "gloo"}),
        ("mpi", False, {"backend": "mpi"}),
        (
            "mpi",
            True,
            {"backend": "custom_backend", "custom_backend": "mpi", "run_all_nodes": True},
        ),
        ("ring", False, {"backend": "custom_backend", "custom_backend": "ring"}),
    ],
)
def test_a_command_of_ones_own(
    compute: Call, backend: str, on_all: bool, expected: dict[str, Any]
) -> None:
    command = {"benchmark": "", "image": "me/code:1", "command": "python 'a b.py'"}
    order = _order(compute, **command, backend=backend, run_all_nodes=on_all)
    assert order == {
        "name": "digits-2",
        "num_workers": 2,
        "image_name": "custom_image",
        "custom_image_name": "me/code:1",
        "custom_image_command": "python 'a b.py'",
        **expected,
        "queue": True,
    }


@pytest.mark.parametrize(
    ("name", "following"),
    [
        ("digits", "digits-2"),
        ("digits-2", "digits-3"),
        ("digits-999", "digits-1000"),
        ("digits-20261121-120000", "digits-20261121-120000-2"),
        ("a" * 40, f"{'a' * 38}-2"),
        (f"{'a' * 37}-bc", f"{'a' * 37}-2"),
        (f"{'a' * 38}-9", f"{'a' * 37}-10"),
    ],
)
def test_the_next_name(compute: Call, name: str, following: str) -> None:
    assert len(following) <= 40
    assert compute(_MODULE, "(m, name) => m.nextName(name)", name) == following
