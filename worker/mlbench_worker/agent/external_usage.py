"""Resource usage of an external rank, under the names of the exporter's series for worker pods."""

import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mlbench.contract.names import ResourceName
from mlbench.local.proc import TABLE, parse_traffic
from mlbench_worker.agent.gpus import Gpus
from mlbench_worker.agent.kernel import descendants_in, process_table, total_seconds
from mlbench_worker.agent.machine import available_memory, group_memory

_PAGE_BYTES = resource.getpagesize()


def read_usage(root: int | None, gpus: Gpus | None = None) -> Mapping[ResourceName, float]:
    """Return the usage of a process and its descendants, without this process; empty if it ended.

    Units are seconds of CPU time and bytes. In a container with a memory limit, the memory is that
    of the whole container, as counted by the kernel against the limit. Traffic is known in a pod
    only. In a pod with a single rank, all ``gpus`` count as the rank's, because the driver reports
    process ids of the machine instead of the pod. Otherwise, only GPUs count that no other process
    uses.
    """
    table = process_table()
    if root is None or root not in table:
        return {}
    own = {root, *descendants_in(table, root)} - {os.getpid()}
    resident = shared = 0
    for pid in own:
        with suppress(OSError):  # the process has ended
            _, resident_pages, shared_pages, *_ = Path(f"/proc/{pid}/statm").read_text().split()
            resident += int(resident_pages) * _PAGE_BYTES
            shared += int(shared_pages) * _PAGE_BYTES
    usage: dict[ResourceName, float] = {
        "container_cpu_usage_seconds_total": round(total_seconds(table[pid] for pid in own), 6),
        "container_memory_usage_bytes": resident,
        # Without pages of files and shared memory, which several processes may map.
        "container_memory_working_set_bytes": resident - shared,
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
        traffic = parse_traffic(TABLE.read_text())
        usage["container_network_receive_bytes_total"] = traffic.received
        usage["container_network_transmit_bytes_total"] = traffic.sent
    return usage


def free_memory(root: int | None) -> float:
    """Return the bytes of memory still available to a process, in its container or machine."""
    usage = read_usage(root)
    limit = usage.get("container_spec_memory_limit_bytes")
    if limit is None:
        return available_memory()
    return limit - usage["container_memory_working_set_bytes"]
