"""The processor of a machine as a referee asks for it: generation, clock, caches, hypervisor.

All of it is read from files of Linux's kernel (Documentation/ABI, sysfs-devices-system-cpu), of the
first core. What the kernel does not tell, as in many containers and virtual machines, is left out.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlbench_worker.agent.files import text_of

_CPU = Path("sys/devices/system/cpu")
_ABOUT = re.compile(r"([\w ]+?)\s*:\s*(.*\S)")
_GENERATION = ("cpu family", "model", "stepping", "microcode")
_OF_KIND = {"Data": "d", "Instruction": "i"}
_ON = {"0": "off", "1": "on"}
_KHZ_PER_MHZ = 1000
# A clock that a hypervisor offers names it; what processors say of it is in no file.
_OF_CLOCKS = {"kvm": "KVM", "hyperv": "Hyper-V", "xen": "Xen"}


def read_model(root: Path) -> str | None:
    """Return the first core's model, where the kernel tells it, as on x86 and POWER."""
    about = _first_core(root)
    return about.get("model name") or about.get("cpu")


def read_processor(root: Path) -> dict[str, str]:
    """Return the facts that are known of the processor, by name."""
    about = _first_core(root)
    numbers = (
        f"{name.removeprefix('cpu ')} {about[name]}" for name in _GENERATION if name in about
    )
    facts = {
        "generation": ", ".join(numbers),
        "clock": _clock(root, about),
        "governor": _text(root / _CPU / "cpu0/cpufreq/scaling_governor"),
        "turbo": _turbo(root),
        "smt": _ON.get(_text(root / _CPU / "smt/active"), ""),
        "caches": ", ".join(_caches(root)),
        "numa_nodes": str(len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or ""),
        "hypervisor": _hypervisor(root, about),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _first_core(root: Path) -> Mapping[str, str]:
    """Return what /proc/cpuinfo says of the first core; with hundreds of cores, all is long."""
    fields: dict[str, str] = {}
    try:
        with (root / "proc/cpuinfo").open(errors="replace") as lines:
            for line in lines:
                if match := _ABOUT.match(line):
                    fields.setdefault(match[1], match[2])
                elif fields:
                    break
    except OSError:
        pass
    return fields


def _clock(root: Path, about: Mapping[str, str]) -> str:
    """Return the highest clock, or in a virtual machine the one that it has."""
    highest = _text(root / _CPU / "cpu0/cpufreq/cpuinfo_max_freq")
    if highest.isdecimal():
        return f"{int(highest) // _KHZ_PER_MHZ} MHz"
    # It goes up and down by a few.
    return f"{round(float(about['cpu MHz']), -1):.0f} MHz" if "cpu MHz" in about else ""


def _turbo(root: Path) -> str:
    off = {"0": "on", "1": "off"}.get(_text(root / _CPU / "intel_pstate/no_turbo"))
    return off or _ON.get(_text(root / _CPU / "cpufreq/boost"), "")


def _caches(root: Path) -> Iterator[str]:
    for cache in sorted((root / _CPU / "cpu0/cache").glob("index[0-9]*")):
        level, kind, size = (_text(cache / name) for name in ("level", "type", "size"))
        if level and size:
            yield f"L{level}{_OF_KIND.get(kind, '')} {size}"


def _hypervisor(root: Path, about: Mapping[str, str]) -> str:
    if "hypervisor" not in about.get("flags", "").split():
        return ""
    clocks = _text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource")
    return next((name for hint, name in _OF_CLOCKS.items() if hint in clocks), "not known")


def _text(path: Path) -> str:
    return text_of(path).strip()
