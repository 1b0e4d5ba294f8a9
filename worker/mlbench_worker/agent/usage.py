"""What a rank uses whose processes others start, as the exporter tells it of worker pods."""

import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mlbench.contract.names import ResourceName
from mlbench.local.traffic import TABLE, parse_traffic
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.kernel import descendants_in, process_table, total_seconds
from mlbench_worker.agent.machine import available_memory, group_memory

_PAGE_BYTES = resource.getpagesize()


def read_usage(root: int | None, gpus: Gpus | None = None) -> Mapping[ResourceName, float]:
    """Return what a process and its descendants use, without this process; nothing if it is gone.

    Seconds of CPU time and bytes. In a container whose memory is limited, the memory is that of all
    in it, as the kernel counts it against the limit. The traffic is that of a pod, which has a
    network of its own, and so are its ``gpus``, if no other rank is in it: there the driver's
    process ids are those of the machine. Else they are those on which only these processes compute.
    """
    table = process_table()
    if root is None or root not in table:
        return {}
    own = {root, *descendants_in(table, root)} - {os.getpid()}
    held = shared = 0
    for pid in own:
        with suppress(OSError):  # it is gone
            _, its_held, its_shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
            held += int(its_held) * _PAGE_BYTES
            shared += int(its_shared) * _PAGE_BYTES
    usage: dict[ResourceName, float] = {
        "container_cpu_usage_seconds_total": round(total_seconds(table[pid] for pid in own), 6),
        "container_memory_usage_bytes": held,
        # Without pages of files and shared memory, which several processes map.
        "container_memory_working_set_bytes": held - shared,
        "container_processes": len(own),
    }
    if group := group_memory():
        usage["container_memory_usage_bytes"] = group.used
        usage["container_memory_working_set_bytes"] = max(0, group.used - group.inactive_files)
        usage["container_spec_memory_limit_bytes"] = group.limit
    is_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    if gpus is not None:
        is_alone = is_pod and os.environ.get("LOCAL_WORLD_SIZE", "1") == "1"
        usage |= gpus.used_by(None if is_alone else own)
    if is_pod:
        carried = parse_traffic(TABLE.read_text())
        usage["container_network_receive_bytes_total"] = carried.received
        usage["container_network_transmit_bytes_total"] = carried.sent
    return usage


def free_memory(root: int | None) -> float:
    """Return the bytes that a process and its descendants, or its machine, can still have."""
    usage = read_usage(root)
    limit = usage.get("container_spec_memory_limit_bytes")
    if limit is None:
        return available_memory()
    return limit - usage["container_memory_working_set_bytes"]
