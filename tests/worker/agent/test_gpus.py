"""GPUs reported by a driver's library: a fake one, or a real one."""

import ast
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.nvml import build_nvml
from tests.support.processes import run_text

_has_driver = shutil.which("nvidia-smi") is not None
_READ = """
from mlbench_worker.agent.gpus import Gpus
gpus = Gpus()
print((gpus.names, gpus.driver, sorted(gpus.limits())))
"""


def read(**environ: str) -> Any:
    """Return names, driver and limits from a new process: NVML is loaded once per process."""
    done = run_text([sys.executable, "-c", _READ], env=os.environ | environ, check=True)
    return ast.literal_eval(done.stdout)


def test_a_lost_gpu_is_listed_without_its_name(tmp_path: Path) -> None:
    build_nvml(tmp_path)
    here, limits = str(tmp_path), ["heat", "power"]
    first, second, third = (f"NVIDIA Test {number}" for number in range(3))
    assert read(LD_LIBRARY_PATH=here) == ((first, second, third), "550.1", limits)
    names, _, _ = read(LD_LIBRARY_PATH=here, NVML_LOST="1")
    assert names == (first, second, "a GPU that does not answer")
    assert read(LD_LIBRARY_PATH=here, NVML_NO_DRIVER="1") == ((), None, [])


@pytest.mark.skipif(_has_driver, reason="a real driver is here")
def test_an_invalid_library_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    assert read(LD_LIBRARY_PATH=str(tmp_path)) == ((), None, [])


@pytest.mark.skipif(not _has_driver, reason="no NVIDIA driver")
def test_a_real_driver() -> None:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    listed = run_text(query, check=True)
    rows = [line.split(", ") for line in listed.stdout.splitlines()]
    assert read()[:2] == (tuple(name for name, _ in rows), rows[0][1])


_USE = """
import json, sys
from mlbench_worker.agent.gpus import Gpus
gpus = Gpus()
for pids in json.loads(sys.argv[1]):
    used = gpus.used_by(None if pids is None else {*pids})
print(json.dumps(used))
"""


@pytest.mark.skipif(_has_driver, reason="a real driver is here")
def test_usage_counts_only_gpus_that_are_not_shared(tmp_path: Path) -> None:
    build_nvml(tmp_path)

    def used(*pids: list[int] | None, **environ: str) -> dict[str, float]:
        """Return the GPU metrics after the last of several readings of these processes' GPUs."""
        own = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "NVML_PIDS": "11 13 12"} | environ
        command = [sys.executable, "-c", _USE, json.dumps(pids)]
        figures: dict[str, float] = json.loads(run_text(command, env=own, check=True).stdout)
        return {name.removeprefix("mlbench_gpu_"): value for name, value in figures.items()}

    gpu = {"utilization_ratio": 0.75, "memory_used_bytes": 2000, "memory_total_bytes": 8000}
    assert used([1, 12], [12]) == {**gpu, "power_watts": 70.5, "energy_joules_total": 2.0}
    both = {"utilization_ratio": 0.5, "memory_used_bytes": 4000, "memory_total_bytes": 16000}
    twice = [11, 12], [11, 12]
    assert used(*twice) == {**both, "power_watts": 141.0, "energy_joules_total": 8.0}
    # All GPUs of a pod are its own. A sum is left out if one GPU does not report the value.
    every = {"utilization_ratio": 0.5, "memory_used_bytes": 6000, "memory_total_bytes": 24000}
    assert used(None) == {**every, "power_watts": 211.5}
    assert used(None, NVML_LOST="1") == every
    assert used([1]) == used([11], NVML_PIDS="11,99") == {}
    # Other processes may have used the energy between the readings.
    for between in ([11], []):
        assert used([12], between, [12])["energy_joules_total"] == 0.0
