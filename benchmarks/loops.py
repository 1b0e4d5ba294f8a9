"""Training loops in processes of their own, which train when told to, and tell their speed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mlbench import names


@contextmanager
def loop(
    module: str, name: str, folder: Path, environ: Mapping[str, str] | None = None
) -> Iterator[Callable[[], float]]:
    """Start ``python -m MODULE NAME FOLDER``, and yield how to ask it to train."""
    records = folder / name.replace(", ", "-")
    records.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", module, name, str(records)],
        env={**os.environ, names.ENV_MULTIPROC_DIR: str(records), **(environ or {})},
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


def answer(train: Callable[[], None], samples: int) -> None:
    """Train for every line on standard input, and print the samples a second."""
    for _ in sys.stdin:
        begin = time.perf_counter()
        train()
        print(samples / (time.perf_counter() - begin), flush=True)


def run_environ(folder: Path) -> dict[str, str]:
    """Return what the agent tells a training process; $PROMETHEUS_MULTIPROC_DIR must be set too."""
    return {
        names.ENV_METRICS_FILE: str(folder / "metrics.jsonl"),
        names.ENV_MULTIPROC_DIR: str(folder),
        names.ENV_RUN_ID: "1",
        names.ENV_RANK: "0",
    }


def void(_: object) -> None:
    """Forget a result."""
