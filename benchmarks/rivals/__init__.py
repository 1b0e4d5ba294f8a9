"""The API beside what a user would pick instead: MLBench's own dashboard, and MLflow."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks.api import posts, reading, store_long_run
from benchmarks.measure import Figure, Measure, Ratio, alternate
from benchmarks.rivals import dashboard, mlflow
from benchmarks.servers import Master, measured_master

_ROUNDS = 5
_REPOSITORY = Path(__file__).parents[2]
_KINDS = {
    "single": ("one sample a request, 8 clients", "posts/s"),
    "batch": ("1,000 samples a request, 1 client", "samples/s"),
    "read": ("read a run's 100,000 samples", "ms"),
    "zip": ("read a run's 100,000 samples, zip", "ms"),
}

Contender = Mapping[str, Measure]
"""Measures a running server: those of the kinds above that it can do."""


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return for each kind of measurement everyone's figures, then how many times as fast we are.

    MLBench's dashboard takes part if $MLBENCH_DASHBOARD names a checkout of it.
    """
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {
            "ours": _ours(stack.enter_context(measured_master(_made(folder / "ours")))),
            "MLflow": stack.enter_context(
                mlflow.running(_made(folder / "mlflow"), installed("mlflow"))
            ),
        }
        if checkout := os.environ.get("MLBENCH_DASHBOARD"):
            contenders["MLBench's dashboard"] = stack.enter_context(
                dashboard.running(
                    _made(folder / "dashboard"), installed("dashboard"), Path(checkout).absolute()
                )
            )
        else:
            print(
                "MLBench's dashboard is left out: set $MLBENCH_DASHBOARD to a checkout of "
                f"{dashboard.SOURCE}",
                file=sys.stderr,
            )
        return [line for kind in _KINDS for line in _compare(kind, contenders)]


def _compare(kind: str, contenders: Mapping[str, Contender]) -> list[Figure | Ratio]:
    what, unit = _KINDS[kind]
    able = {name: measures[kind] for name, measures in contenders.items() if kind in measures}
    ours, *others = alternate(_ROUNDS, unit, {f"{what}: {name}": able[name] for name in able})
    speedups = [other.median / ours.median for other in others]
    return [
        ours,
        *others,
        *(
            Ratio(f"{what}: as fast as {name}", speedup if unit == "ms" else 1 / speedup)
            for name, speedup in zip([*able][1:], speedups, strict=True)
        ),
    ]


def _ours(master: Master) -> Contender:
    path = f"/api/metrics/{store_long_run().id}/?metric_type=run&format="
    return {
        "single": posts(master, 250),
        "batch": posts(master, 2500, lists=True),
        "read": reading(master, path + "json", "json"),
        "zip": reading(master, path + "zip", "zip"),
    }


def installed(rival: str) -> Path:
    """Return the folder of a rival's programs, installed the first time."""
    subprocess.run([_REPOSITORY / "scripts" / "get-rivals.sh", rival], check=True)
    return _REPOSITORY / ".benchmarks" / rival / "bin"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
