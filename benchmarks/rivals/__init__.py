"""The API beside what a user would pick instead: MLBench's own dashboard, and MLflow."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.measure import Figure, Ratio, alternate
from benchmarks.rivals import dashboard, mlflow, ours
from benchmarks.rivals.contender import Contender, Kind

_ROUNDS = 5
_REPOSITORY = Path(__file__).parents[2]


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return for each kind of measurement everyone's figures, then how many times as fast we are.

    MLBench's dashboard takes part if $MLBENCH_DASHBOARD names a checkout of it.
    """
    with ExitStack() as stack:
        contenders = [
            stack.enter_context(ours.running(_made(folder / "ours"))),
            stack.enter_context(mlflow.running(_made(folder / "mlflow"), installed("mlflow"))),
        ]
        if checkout := os.environ.get("MLBENCH_DASHBOARD"):
            own = _made(folder / "dashboard")
            contenders.append(
                stack.enter_context(
                    dashboard.running(own, installed("dashboard"), Path(checkout).absolute())
                )
            )
        else:
            print(
                "MLBench's dashboard is left out: set $MLBENCH_DASHBOARD to a checkout of "
                f"{dashboard.SOURCE}",
                file=sys.stderr,
            )
        return [line for kind in Kind for line in _compare(kind, contenders)]


def _compare(kind: Kind, contenders: list[Contender]) -> list[Figure | Ratio]:
    able = [contender for contender in contenders if kind in contender.measure]
    our_figure, *others = alternate(
        _ROUNDS, [(f"{kind.what}: {one.name}", kind.unit, one.measure[kind]) for one in able]
    )
    ratios = [
        Ratio(
            f"{kind.what}: as fast as {rival.name}",
            kind.times_as_fast(our_figure.median, figure.median),
        )
        for rival, figure in zip(able[1:], others, strict=True)
    ]
    return [our_figure, *others, *ratios]


def installed(rival: str) -> Path:
    """Return the folder of a rival's programs, installed the first time."""
    subprocess.run([_REPOSITORY / "scripts" / "get-rivals.sh", rival], check=True)
    return _REPOSITORY / ".benchmarks" / rival / "bin"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
