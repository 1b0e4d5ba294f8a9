"""This machine's GPUs: their names, limits of their clocks, and usage, read through NVML."""

import ctypes
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from typing import Any, Final

from mlbench.contract.names import GPU_ENERGY, ResourceName

# nvmlClocksEventReasons of nvml.h, without the reason of an idle GPU.
_REASONS = {
    0x02: "setting",
    0x04: "power",
    0x08: "hardware",
    0x10: "sync boost",
    0x20: "heat",
    0x40: "heat",
    0x80: "power brake",
}
_MAX_TEXT_LENGTH = 96  # NVML's buffer size
_MAX_PROCESSES = 1024


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Rates(ctypes.Structure):
    _fields_ = (("gpu_percent", ctypes.c_uint), ("memory_percent", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


def _of_thousandths(answer: Any) -> float:
    return float(answer.value / 1000)  # NVML counts in milliwatts and millijoules


_UTILIZATION: Final = "mlbench_gpu_utilization_ratio"
# For each figure: NVML's function, the type of its result, and a function from that to the figure.
_FIGURES: Final[Mapping[ResourceName, tuple[str, type[Any], Callable[[Any], float]]]] = {
    _UTILIZATION: ("nvmlDeviceGetUtilizationRates", _Rates, lambda rates: rates.gpu_percent / 100),
    "mlbench_gpu_memory_used_bytes": ("nvmlDeviceGetMemoryInfo", _Memory, lambda it: it.used),
    "mlbench_gpu_memory_total_bytes": ("nvmlDeviceGetMemoryInfo", _Memory, lambda it: it.total),
    "mlbench_gpu_power_watts": ("nvmlDeviceGetPowerUsage", ctypes.c_uint, _of_thousandths),
    GPU_ENERGY: ("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong, _of_thousandths),
}


class Gpus:
    """The GPUs in the order of the driver, until ``close``; empty without a driver."""

    def __init__(self) -> None:
        """Connect to the driver, which may take seconds to wake up."""
        self._nvml: ctypes.CDLL | None = None
        self._gpus: list[ctypes.c_void_p | None] = []
        self._joules = 0.0
        self._counters: dict[int | None, float] = {}
        """Energy counters, in joules, of the GPUs in the last call, by their handles."""
        with suppress(OSError, AttributeError):  # no library, or one that lacks a function
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if nvml.nvmlInit_v2():
                return
            self._nvml = nvml
            count = ctypes.c_uint()  # stays 0 if the call fails
            nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
            for index in range(count.value):
                gpu = ctypes.c_void_p()
                failed = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(gpu))
                self._gpus.append(None if failed else gpu)

    @property
    def driver(self) -> str | None:
        """Version of the driver; None without a driver."""
        return self._text("nvmlSystemGetDriverVersion")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all GPUs."""
        lost = "a GPU that does not answer"
        return tuple((gpu and self._text("nvmlDeviceGetName", gpu)) or lost for gpu in self._gpus)

    def limits(self) -> Set[str]:
        """Return the reasons that limit the clock of at least one GPU now."""
        bits = ctypes.c_ulonglong()
        limits: set[str] = set()
        for gpu in filter(None, self._gpus):
            if self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu, ctypes.byref(bits)):
                limits |= {reason for bit, reason in _REASONS.items() if bits.value & bit}
        return limits

    def used_by(self, pids: Set[int] | None) -> Mapping[ResourceName, float]:
        """Return the usage of the GPUs that only these processes use; of all GPUs if None.

        Values are sums over the GPUs, except for the utilization (0 to 1), which is their mean. The
        energy counts between two calls that both include a GPU. A figure is left out if a GPU does
        not report it, because a sum over the other GPUs would be misleading.
        """
        own = []
        for gpu in filter(None, self._gpus):
            processes, count = (_Process * _MAX_PROCESSES)(), ctypes.c_uint(_MAX_PROCESSES)
            function = "nvmlDeviceGetComputeRunningProcesses_v3"
            users = set()
            if pids is not None and self._ask(function, gpu, ctypes.byref(count), processes):
                users = {process.pid for process in processes[: count.value]}
            if pids is None or (users and users <= pids):
                own.append(gpu)
        if not own:
            self._counters = {}
            return {}
        used: dict[ResourceName, float] = {}
        for name, (function, kind, figure) in _FIGURES.items():
            values = []
            for gpu in own:
                answer = kind()
                if self._ask(function, gpu, ctypes.byref(answer)):
                    values.append(figure(answer))
            if len(values) < len(own):
                continue
            if name == GPU_ENERGY:  # the energy since the last call, of GPUs in both calls
                last = self._counters
                self._counters = dict(zip((gpu.value for gpu in own), values, strict=True))
                self._joules += sum(now - last.get(gpu, now) for gpu, now in self._counters.items())
                used[name] = self._joules
            else:
                used[name] = sum(values) / (len(own) if name == _UTILIZATION else 1)
        return used

    def close(self) -> None:
        self._ask("nvmlShutdown")

    def _text(self, function: str, *arguments: object) -> str | None:
        text = ctypes.create_string_buffer(_MAX_TEXT_LENGTH)
        succeeded = self._ask(function, *arguments, text, ctypes.c_uint(_MAX_TEXT_LENGTH))
        return text.value.decode(errors="replace") if succeeded else None

    def _ask(self, function: str, *arguments: object) -> bool:
        """Call a function of the library; return whether it exists and succeeded."""
        call = getattr(self._nvml, function, None)
        return call is not None and call(*arguments) == 0
