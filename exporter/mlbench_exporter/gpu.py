"""Reads the GPUs of this machine through NVIDIA's library NVML."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import pynvml

from mlbench_exporter import series
from mlbench_exporter.processes import find_processes
from mlbench_exporter.series import Sample, Series, SourceError

Handle: TypeAlias = pynvml.c_nvmlDevice_t
Answer = TypeVar("Answer")

# NVML's units: percent, milliwatts, millijoules.
FIGURES: tuple[tuple[Series, Callable[[Handle], float]], ...] = (
    (series.GPU_UTILIZATION, lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100),
    (series.GPU_MEMORY_USED, lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).used),
    (series.GPU_MEMORY_TOTAL, lambda gpu: pynvml.nvmlDeviceGetMemoryInfo(gpu).total),
    (series.GPU_POWER, lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
    (series.GPU_ENERGY, lambda gpu: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000),
)


def driver_is_present() -> bool:
    """Connect to the driver until this process ends; False where there is none."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return True


@dataclass(frozen=True)
class GpuSource:
    """Reads every GPU, with the pod of the local stack in the folder ``home`` that uses it.

    A pod can be named if its processes can be seen: on this machine, not through a container. A GPU
    that several pods share is shown without one, as its figures cannot be divided.
    """

    name = "gpu"

    home: Path
    node: str

    def read(self) -> Iterator[Sample]:
        """Yield the samples of each GPU; if one fails, SourceError after the others were read."""
        pods = find_processes(self.home)
        failures: list[str] = []
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise SourceError(str(error)) from error
        for index in range(count):
            try:
                yield from self._read_gpu(index, pods)
            except pynvml.NVMLError as error:
                failures.append(f"GPU {index}: {error}")
        if failures:
            raise SourceError("; ".join(failures))

    def _read_gpu(self, index: int, pods: Mapping[int, str]) -> Iterator[Sample]:
        gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
        users = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, gpu) or ()
        using = {pods[process.pid] for process in users if process.pid in pods}
        pod = using.pop() if len(using) == 1 else ""
        labels = (self.node, str(index), pynvml.nvmlDeviceGetUUID(gpu), pod)
        for of, figure in FIGURES:
            if (value := _ask(figure, gpu)) is not None:
                yield Sample(of, labels, value)


def _ask(question: Callable[[Handle], Answer], gpu: Handle) -> Answer | None:
    """Ask NVML about a GPU; None if the GPU or the driver does not support it."""
    try:
        return question(gpu)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None
