"""Read the GPUs of this machine through NVIDIA's library NVML."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import pynvml

from mlbench_exporter import exported_series as series
from mlbench_exporter.exported_series import ExportedSample, ExportedSeries, SourceError
from mlbench_exporter.processes import find_processes

Handle: TypeAlias = pynvml.c_nvmlDevice_t
Value = TypeVar("Value")

# NVML reports percent, milliwatts and millijoules.
FIGURES: tuple[tuple[ExportedSeries, Callable[[Handle], float]], ...] = (
    (series.GPU_UTILIZATION, lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100),
    (series.GPU_MEMORY_USED, lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).used),
    (series.GPU_MEMORY_TOTAL, lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).total),
    (series.GPU_POWER, lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
    (series.GPU_ENERGY, lambda gpu: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000),
)


def driver_is_present() -> bool:
    """Connect to the driver until this process exits, and return whether there is a driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return True


@dataclass(frozen=True)
class GpuSource:
    """Reads every GPU, with the pod that uses it in the local stack in the folder ``home``.

    The pod is known only if its processes are visible: on this machine, not from a container. A
    GPU that several pods share has no pod, because its figures cannot be divided.
    """

    name = "gpu"

    home: Path
    node: str

    def read(self) -> Iterator[ExportedSample]:
        """Yield the samples of each GPU; SourceError follows after the others if a GPU fails."""
        pods = find_processes(self.home)
        failures: list[str] = []
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise SourceError(str(error)) from error
        for index in range(count):
            try:
                gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
                processes = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, gpu) or ()
                users = {pods[process.pid] for process in processes if process.pid in pods}
                pod = users.pop() if len(users) == 1 else ""
                labels = (self.node, str(index), pynvml.nvmlDeviceGetUUID(gpu), pod)
                for kind, read in FIGURES:
                    if (value := _ask(read, gpu)) is not None:
                        yield ExportedSample(kind, labels, value)
            except pynvml.NVMLError as error:
                failures.append(f"GPU {index}: {error}")
        if failures:
            raise SourceError("; ".join(failures))


def _ask(read: Callable[[Handle], Value], gpu: Handle) -> Value | None:
    """Read a value of a GPU; None if the GPU or the driver does not support it."""
    try:
        return read(gpu)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None
