"""This machine's GPUs, and what keeps their clocks down, as NVIDIA's library NVML tells it."""

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
_LONGEST_TEXT = 96  # as NVML has it


class Gpus:
    """The GPUs, in the order of the driver; none where there is no driver, until ``close``."""

    def __init__(self) -> None:
        """Connect to the driver, which may take seconds to wake up."""
        self._nvml: ctypes.CDLL | None = None
        self._gpus: list[ctypes.c_void_p | None] = []
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if nvml.nvmlInit_v2():
                return
            self._nvml = nvml
            count = ctypes.c_uint()  # stays 0 if the driver does not tell
            nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
            for index in range(count.value):
                gpu = ctypes.c_void_p()
                failed = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(gpu))
                self._gpus.append(None if failed else gpu)
        except (OSError, AttributeError):  # no library, or one that lacks a function
            pass

    @property
    def driver(self) -> str | None:
        """The driver's version; None without one."""
        return self._text("nvmlSystemGetDriverVersion")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all of them."""
        lost = "a GPU that does not answer"
        return tuple((gpu and self._text("nvmlDeviceGetName", gpu)) or lost for gpu in self._gpus)

    def limits(self) -> Set[str]:
        """Return what keeps the clock of at least one GPU down now."""
        found = ctypes.c_ulonglong()
        limits: set[str] = set()
        for gpu in filter(None, self._gpus):
            if self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu, ctypes.byref(found)):
                limits |= {reason for bit, reason in _REASONS.items() if found.value & bit}
        return limits

    def close(self) -> None:
        """Leave the driver alone."""
        self._ask("nvmlShutdown")

    def _text(self, function: str, *arguments: object) -> str | None:
        text = ctypes.create_string_buffer(_LONGEST_TEXT)
        told = self._ask(function, *arguments, text, ctypes.c_uint(_LONGEST_TEXT))
        return text.value.decode(errors="replace") if told else None

    def _ask(self, function: str, *arguments: object) -> bool:
        """Call a function of the library, and return whether there is one that did not fail."""
        call = getattr(self._nvml, function, None)
        return call is not None and call(*arguments) == 0
