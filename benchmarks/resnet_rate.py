"""Images a second of ResNet-20: our loop, its options, plain PyTorch, and MLBench's own loop."""

import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

from benchmarks.loops import loop
from benchmarks.measure import Figure, Ratio, alternate
from benchmarks.resnet_loops import OURS

_ROUNDS = 7
_MODULE = "benchmarks.resnet_loops"


def measure(folder: Path) -> list[Figure | Ratio]:
    """Return images a second of every loop, taken in turn, and how they compare."""
    ours = [name for name in OURS if "compiled" not in name or shutil.which("g++")]
    with ExitStack() as stack:
        loops = [
            (what, "images/s", stack.enter_context(loop(_MODULE, name, folder, _environ(name))))
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


def _environ(name: str) -> dict[str, str]:
    # All of it, and what our environment lacks of it, behind our own.
    return {"PYTHONPATH": _site_packages() if name == "mlbench-core" else ""}


def _site_packages() -> str:
    script = Path(__file__).parents[1] / "scripts" / "get-mlbench-core.sh"
    done = subprocess.run([script], capture_output=True, text=True, check=True)
    python = done.stdout.strip()
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run(
        [python, "-c", where], capture_output=True, text=True, check=True
    ).stdout.strip()
