"""What keeps the clocks of this machine's GPUs down, as NVIDIA's library NVML tells it."""

import ctypes
from collections.abc import Set

# nvmlClocksEventReasons of nvml.h. An idle GPU's clock is low because nobody wants more.
_REASONS = {
    0x02: "setting",
    0x04: "power",
    0x08: "hardware",
    0x10: "sync boost",
    0x20: "heat",
    0x40: "heat",
    0x80: "power brake",
}


class GpuClocks:
    """Asks the driver again and again; where there is none, nothing limits a clock."""

    def __init__(self) -> None:
        """Connect to the driver, which may take seconds to wake up."""
        self._nvml: ctypes.CDLL | None = None
        self._gpus: list[ctypes.c_void_p] = []
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if nvml.nvmlInit_v2():
                return
            self._nvml = nvml
            count = ctypes.c_uint()  # stays 0 if the driver does not tell
            nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
            for index in range(count.value):
                gpu = ctypes.c_void_p()
                if not nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(gpu)):
                    self._gpus.append(gpu)
        except (OSError, AttributeError):  # no library, or one that lacks a function
            pass

    def limits(self) -> Set[str]:
        """Return what keeps the clock of at least one GPU down now."""
        found = ctypes.c_ulonglong()
        limits: set[str] = set()
        for gpu in self._gpus:
            ask = getattr(self._nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
            if ask is not None and not ask(gpu, ctypes.byref(found)):
                limits |= {reason for bit, reason in _REASONS.items() if found.value & bit}
        return limits

    def close(self) -> None:
        """Leave the driver alone."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
