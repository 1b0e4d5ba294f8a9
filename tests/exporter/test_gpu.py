"""GPUs through NVML's real bindings: with a fake library, no library, and a real driver."""

import os
from pathlib import Path

import psutil
import pytest

from mlbench_exporter import exported_series as series
from mlbench_exporter import gpu
from mlbench_exporter.gpu import GpuSource
from tests.support.exporting import exporter, promtool_says, values
from tests.support.nvml import build_nvml

from .conftest import StartPod

UP = "mlbench_exporter_source_up"


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which the fake library replaces the driver's."""
    folder = tmp_path_factory.mktemp("nvml")
    build_nvml(folder)
    return {"LD_LIBRARY_PATH": str(folder)}


def test_utilisation_memory_power_and_energy_are_reported(
    nvml: dict[str, str], tmp_path: Path, promtool: Path
) -> None:
    with exporter(tmp_path, ("--node", "laptop"), nvml) as served:
        text = served.scrape()

    labels = ("node", "gpu", "uuid", "pod")
    every = [("laptop", str(index), f"GPU-{index}", "") for index in range(3)]
    utilization = dict(zip(every, (0.25, 0.5, 0.75), strict=True))
    assert values(text, "mlbench_gpu_utilization_ratio", *labels) == utilization
    assert values(text, "mlbench_gpu_memory_used_bytes", *labels) == dict.fromkeys(every, 2000)
    assert values(text, "mlbench_gpu_memory_total_bytes", *labels) == dict.fromkeys(every, 8000)
    assert values(text, "mlbench_gpu_power_watts", *labels) == dict.fromkeys(every, 70.5)
    energy = values(text, "mlbench_gpu_energy_joules_total", *labels)
    assert energy == {every[0]: 5_000_000_252, every[2]: 5_000_000_254}
    assert values(text, UP, "source")[("gpu",)] == 1
    assert promtool_says(promtool, text) == ""


def test_a_gpu_is_attributed_to_the_pod_that_uses_it(
    nvml: dict[str, str], start_pod: StartPod, tmp_path: Path
) -> None:
    agent = start_pod("local-mlbench-worker-3")
    agent.do("child = subprocess.Popen(['sleep', '60'])")
    (child,) = psutil.Process(agent.process.pid).children()
    other = start_pod("local-mlbench-worker-4").process.pid
    pids = {"NVML_PIDS": f"{os.getpid()},{child.pid} {child.pid},{other}"}
    with exporter(tmp_path, environ=nvml | pids) as served:
        used = values(served.scrape(), "mlbench_gpu_power_watts", "gpu", "pod")
    with exporter(tmp_path / "other", environ=nvml | pids) as served:
        elsewhere = values(served.scrape(), "mlbench_gpu_power_watts", "gpu", "pod")
    agent.do("child.kill(); child.wait()")

    assert set(used) == {("0", "local-mlbench-worker-3"), ("1", ""), ("2", "")}
    assert set(elsewhere) == {("0", ""), ("1", ""), ("2", "")}


def test_a_failing_gpu_does_not_affect_the_others(nvml: dict[str, str], tmp_path: Path) -> None:
    with exporter(tmp_path, environ=nvml | {"NVML_LOST": "1"}) as served:
        texts = [served.scrape(), served.scrape()]
        log = served.stop()

    for text in texts:
        assert set(values(text, "mlbench_gpu_power_watts", "gpu")) == {("0",), ("1",)}
        up = values(text, UP, "source")
        assert (up[("processes",)], up[("gpu",)]) == (1, 0)
    assert log.count("source gpu failed: GPU 2: GPU is lost") == 1
    assert "Traceback" not in log


@pytest.mark.parametrize("why", ["no library", "no driver"])
def test_without_a_driver_no_gpu_series_are_exported(
    why: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    environ = {}
    if why == "no driver":
        environ = request.getfixturevalue("nvml") | {"NVML_NO_DRIVER": "1"}
    elif gpu.driver_is_present():
        pytest.skip("there is a driver")
    with exporter(tmp_path, environ=environ) as served:
        text = served.scrape()
        log = served.stop()

    assert "gpu" not in text
    assert values(text, UP, "source")[("processes",)] == 1
    assert log == ""


def test_a_real_gpu_is_read(tmp_path: Path) -> None:
    if not gpu.driver_is_present():
        pytest.skip("no NVIDIA driver here")

    samples = {sample.series: sample for sample in GpuSource(tmp_path, "node1").read()}

    assert 0 <= samples[series.GPU_UTILIZATION].value <= 1
    total = samples[series.GPU_MEMORY_TOTAL]
    assert 0 <= samples[series.GPU_MEMORY_USED].value <= total.value
    assert total.labels[2].startswith("GPU-")
