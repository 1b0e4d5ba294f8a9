"""The facts of this machine: what a result depends on, and a comparison has to know."""

import contextlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from worker.agent.cgroup import cpu_limit, memory_limit
from worker.agent.qdisc import bandwidth_limit

_CPU_MODEL = re.compile(r"(?:model name|cpu)\s*:\s*(.*\S)")


@dataclass(frozen=True)
class Machine:
    """A machine, as its operating system shows it to this process; None for what it does not."""

    hostname: str
    os: str
    """The distribution and its kernel."""
    architecture: str
    cpu_model: str | None
    cpus: int
    """Cores that this process may run on."""
    cpu_limit: float | None
    """How many cores' worth of time it may use."""
    bandwidth_limit: float | None
    """How many Mbit/s it may send."""
    memory_bytes: int
    memory_limit_bytes: int | None


def read_machine(root: Path = Path("/")) -> Machine:
    """Return the facts; ``root`` is where the files of the operating system are."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = memory_limit(root)
    return Machine(
        hostname=platform.node(),
        os=_os(),
        architecture=platform.machine(),
        cpu_model=_cpu_model(root),
        cpus=len(os.sched_getaffinity(0)),
        cpu_limit=cpu_limit(root),
        bandwidth_limit=bandwidth_limit(root),
        memory_bytes=memory_bytes,
        memory_limit_bytes=limit if limit is not None and limit < memory_bytes else None,
    )


def _os() -> str:
    kernel = f"{platform.system()} {platform.release()}"
    with contextlib.suppress(OSError):
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    return kernel


def _cpu_model(root: Path) -> str | None:
    """Return the first core's model, as x86 and POWER tell it."""
    with contextlib.suppress(OSError), (root / "proc/cpuinfo").open(errors="replace") as lines:
        # Not in full: with hundreds of cores that takes a while.
        return next((found[1] for line in lines if (found := _CPU_MODEL.match(line))), None)
    return None
