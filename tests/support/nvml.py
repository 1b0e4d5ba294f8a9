"""A fake NVIDIA driver library, compiled by the test: it reports GPUs that do not exist."""

import shutil
import subprocess
from pathlib import Path

import pytest


def build_nvml(folder: Path) -> None:
    """Compile ``nvml.c`` in ``folder`` under the driver library's name, or skip the test."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler, to make an NVML with")
    source, library = Path(__file__).with_suffix(".c"), folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
