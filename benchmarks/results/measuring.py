"""Measuring a benchmark set on a running stack, and taking its archives to a file."""

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mlbench.archive import SUFFIX


@dataclass(frozen=True)
class Bench:
    """A benchmark set."""

    name: str
    arguments: str
    """Of ``mlbench bench``, without the set's name."""
    minutes: float
    """How long it takes on two quiet cores."""

    @property
    def command(self) -> str:
        """What measures it; interrupted, the same command goes on."""
        return f"mlbench bench {self.arguments} --name {self.name}"

    def file(self, folder: Path) -> Path:
        """Return the file of its archives."""
        return folder / f"{self.name}{SUFFIX}"


def measure(bench: Bench, folder: Path) -> bool:
    """Run what is missing of a set, and write its archives; return whether all runs finished."""
    folder.mkdir(parents=True, exist_ok=True)
    measured = _mlbench("bench", *shlex.split(bench.arguments), "--name", bench.name)
    exported = _mlbench("export", bench.name, "-o", str(bench.file(folder)))
    return measured and exported


def _mlbench(*arguments: str) -> bool:
    return not subprocess.run([sys.executable, "-m", "mlbench", *arguments], check=False).returncode
