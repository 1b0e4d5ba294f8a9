"""The GPUs of this machine, as NVIDIA's driver names them through its library NVML."""

import ctypes
from dataclasses import dataclass

_LIBRARY = "libnvidia-ml.so.1"
_LONGEST = 96  # as NVML has it, for a name and for a version


@dataclass(frozen=True)
class Gpus:
    """What the driver tells; nothing where there is none."""

    names: tuple[str, ...] = ()
    driver: str | None = None


def read_gpus() -> Gpus:
    """Return the GPUs in the driver's order. It may take the driver seconds to wake up."""
    try:
        nvml = ctypes.CDLL(_LIBRARY)
        if nvml.nvmlInit_v2():
            return Gpus()
        try:
            return Gpus(_names(nvml), _driver(nvml))
        finally:
            nvml.nvmlShutdown()
    except (OSError, AttributeError):  # no library, or one that lacks a function
        return Gpus()


def _names(nvml: ctypes.CDLL) -> tuple[str, ...]:
    count = ctypes.c_uint()
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return ()
    return tuple(_name(nvml, index) for index in range(count.value))


def _name(nvml: ctypes.CDLL, index: int) -> str:
    device, name = ctypes.c_void_p(), ctypes.create_string_buffer(_LONGEST)
    failed = nvml.nvmlDeviceGetHandleByIndex_v2(
        ctypes.c_uint(index), ctypes.byref(device)
    ) or nvml.nvmlDeviceGetName(device, name, ctypes.c_uint(_LONGEST))
    return "a GPU that does not answer" if failed else name.value.decode(errors="replace")


def _driver(nvml: ctypes.CDLL) -> str | None:
    version = ctypes.create_string_buffer(_LONGEST)
    failed = nvml.nvmlSystemGetDriverVersion(version, ctypes.c_uint(_LONGEST))
    return None if failed else version.value.decode(errors="replace")
