"""Training loops in processes of their own, which train when asked, and answer their speed.

``python -m benchmarks.loops MODULE LOOP FOLDER`` runs one of a module's ``LOOPS``: for every line
on standard input it trains, and prints the samples a second.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.measure import Figure, Measure, alternate, timed
from mlbench import names

_ROUNDS = 7

Loop = tuple[Callable[[], object], int]
"""Trains some steps; and the samples in these."""
Loops = Mapping[str, Callable[[Path], Loop]]
"""Make loops, which may write into a folder, by what they are."""


def rates(
    module: str,
    loops: Loops,
    unit: str,
    folder: Path,
    environ: Callable[[str], Mapping[str, str]] = lambda loop: {},
) -> list[Figure]:
    """Return the samples a second of loops of a module, taken in turn."""
    with ExitStack() as stack:
        processes = {
            loop: stack.enter_context(_process(module, loop, folder / str(i), environ(loop)))
            for i, loop in enumerate(loops)
        }
        return alternate(_ROUNDS, unit, processes)


@contextmanager
def _process(module: str, loop: str, folder: Path, environ: Mapping[str, str]) -> Iterator[Measure]:
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.loops", module, loop, folder],
        env={**os.environ, names.ENV_MULTIPROC_DIR: str(folder), **environ},
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


def run_environ(folder: Path) -> dict[str, str]:
    """Return what the agent gives a training process; $PROMETHEUS_MULTIPROC_DIR must be set too."""
    return {
        names.ENV_METRICS_FILE: str(folder / "metrics.jsonl"),
        names.ENV_MULTIPROC_DIR: str(folder),
        names.ENV_RUN_ID: "1",
        names.ENV_RANK: "0",
    }


def main(module: str, loop: str, folder: str) -> None:
    """Answer each line with a speed."""
    loops: Loops = importlib.import_module(module).LOOPS
    train, samples = loops[loop](Path(folder))
    for _ in sys.stdin:
        print(samples / timed(train), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
