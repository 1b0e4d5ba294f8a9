"""Images a second of ResNet-20: our loop, its options, plain PyTorch, and MLBench's own loop."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.measure import Figure, Ratio, alternate
from benchmarks.resnet_loops import OURS
from mlbench import names

_ROUNDS = 7


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return images a second of every loop, taken in turn, and how they compare."""
    ours = [name for name in OURS if "compiled" not in name or shutil.which("g++")]
    with ExitStack() as stack:
        loops = [
            (what, "images/s", stack.enter_context(_loop(name, folder)))
            for name, what in [
                ("plain", "ResNet-20, batch 128: plain PyTorch, fp32"),
                ("mlbench-core", "mlbench-core 3.0.0's ResNet-20, optimizer and metrics, fp32"),
                *((name, f"our loop, {name}") for name in ours),
            ]
        ]
        figures = alternate(_ROUNDS, loops)
    plain, core, *rest = figures
    return [
        *figures,
        Ratio("our loop, fp32, beside mlbench-core's", rest[0].median / core.median),
        *(
            Ratio(f"{figure.what}, beside plain PyTorch", figure.median / plain.median)
            for figure in rest
        ),
    ]


@contextmanager
def _loop(name: str, folder: Path) -> Iterator[Callable[[], float]]:
    """Start a process that trains whenever it is asked, and yield how to ask."""
    records = folder / name.replace(", ", "-")
    records.mkdir()
    environ = {
        **os.environ,
        names.ENV_MULTIPROC_DIR: str(records),
        # All of it, and what our environment lacks of it, behind our own.
        "PYTHONPATH": _site_packages() if name == "mlbench-core" else "",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.resnet_loops", name, str(records)],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answered = process.stdin, process.stdout

    def ask() -> float:
        asked.write("train\n")
        asked.flush()
        return float(answered.readline())

    try:
        yield ask
    finally:
        process.kill()
        process.communicate()


def _site_packages() -> str:
    script = Path(__file__).parents[1] / "scripts" / "get-mlbench-core.sh"
    done = subprocess.run([script], capture_output=True, text=True, check=True)
    python = done.stdout.strip()
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run(
        [python, "-c", where], capture_output=True, text=True, check=True
    ).stdout.strip()
