"""GPUs through a library made for the test, without any, and of a real driver."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_READ = """
import json
from dataclasses import asdict
from worker.agent.gpus import read_gpus
print(json.dumps(asdict(read_gpus())))
"""
_NONE: dict[str, object] = {"names": [], "driver": None}


def read(**environ: str) -> dict[str, object]:
    """Return what is told to a process of its own, as a library is looked for once."""
    done = subprocess.run(
        [sys.executable, "-c", _READ], env=os.environ | environ, capture_output=True, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of the library made for the test."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler, to make an NVML with")
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("nvml.c")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return str(folder)


def test_the_driver_names_them(nvml: str) -> None:
    assert read(LD_LIBRARY_PATH=nvml) == {
        "names": ["NVIDIA Test 0", "NVIDIA Test 1"],
        "driver": "550.1",
    }


def test_one_that_is_lost_is_still_counted(nvml: str) -> None:
    found = read(LD_LIBRARY_PATH=nvml, NVML_LOST="1")
    assert found["names"] == ["NVIDIA Test 0", "a GPU that does not answer"]


def test_a_library_without_its_driver(nvml: str) -> None:
    assert read(LD_LIBRARY_PATH=nvml, NVML_NO_DRIVER="1") == _NONE


def test_a_library_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    # It is found first, as no library of that name lies elsewhere.
    if shutil.which("nvidia-smi"):
        pytest.skip("a real driver is here")
    assert read(LD_LIBRARY_PATH=str(tmp_path)) == _NONE


def test_a_real_driver() -> None:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        pytest.skip("no NVIDIA driver")
    listed = subprocess.run(
        [smi, "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(", ") for line in listed.stdout.splitlines()]
    assert read() == {"names": [name for name, _ in rows], "driver": rows[0][1]}
