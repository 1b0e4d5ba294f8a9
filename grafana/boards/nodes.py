"""Nodes on the page of workers: their resources, and the pressure on them."""

from typing import Final

from grafana import links, thresholds
from grafana.graphs import lines
from grafana.queries import by, column, graph, rate
from grafana.table_panels import PanelColumn, rows, share

_NODES: Final = 'node=~"$node"'
_OF_WORKERS: Final = f'{{{_NODES},pod=~"$pod"}}'
_HAVE: Final = f"count by (node) (mlbench_pod_info{_OF_WORKERS})"

# With more nodes than this, only the worst ones are drawn.
_NAMED: Final = 5


def _used(used: str, capacity: str) -> str:
    """Return the share of a node's resource that its workers use."""
    return f"sum by (node) ({used}) / on (node) {by('node', f'{capacity}{{{_NODES}}}')}"


def _waits(resource: str) -> str:
    """Return the share of time in which some process waited for a resource, by node."""
    pressure = f'mlbench_node_pressure_seconds_total{{{_NODES},resource="{resource}"}}'
    return by("node", rate(pressure)) + f" and on (node) {_HAVE}"


def _periods(kind: str) -> str:
    return f"sum by (node) ({rate(f'container_cpu_cfs_{kind}_total{_OF_WORKERS}')})"


TABLE: Final = rows(
    "Nodes",
    "Worker nodes: share of cores and memory that MLBench's workers use, and share of time in "
    "which any process of the node waited for a core, memory or a disk. Limit: share of periods "
    "in which workers reached their CPU limit. Click a node for its workers.",
    column("workers", _HAVE),
    column("cores", f"{by('node', f'machine_cpu_cores{{{_NODES}}}')} and on (node) {_HAVE}"),
    column(
        "cpu", _used(rate(f"container_cpu_usage_seconds_total{_OF_WORKERS}"), "machine_cpu_cores")
    ),
    column(
        "memory", _used(f"container_memory_working_set_bytes{_OF_WORKERS}", "machine_memory_bytes")
    ),
    column("waits_cpu", _waits("cpu")),
    column("waits_memory", _waits("memory")),
    column("waits_io", _waits("io")),
    column("limited", f"{_periods('throttled_periods')} / ({_periods('periods')} > 0)"),
    columns=(
        PanelColumn("node", width=145, links=(links.WORKERS_OF_NODE,)),
        PanelColumn("workers", unit="none", decimals=0, width=85),
        PanelColumn("cores", unit="none", decimals=0, width=70),
        share("cpu", "CPU of workers", width=130),
        share("memory", "memory of workers", width=165),
        share("waits_cpu", "waits for cores", width=140, colours=thresholds.WAITING),
        share("waits_memory", "for memory", width=115, colours=thresholds.WAITING),
        share("waits_io", "for disks", width=90, colours=thresholds.WAITING),
        share("limited", "at CPU limit", colours=thresholds.WAITING),
    ),
    sort_by="waits for cores",
    descending=True,
    then_by="node",
    height=6,
    no_value="No worker",
)


def _waiting(resource: str) -> str:
    """Query the nodes that waited most for a resource over the whole time range."""
    now = _waits(resource)
    overall = now.replace("[$__rate_interval]", "[$__range] @ end()")
    return f"({now}) and on (node) topk({_NAMED}, {overall})"


WAITING: Final = lines(
    "Resource pressure by node",
    "Share of time in which some process of a node waited for a core, memory or a disk. Low is "
    "good. With many nodes: the five that waited most.",
    *(
        graph(_waiting(resource), f"{{{{node}}}}: {title}")
        for resource, title in (("cpu", "cores"), ("memory", "memory"), ("io", "disks"))
    ),
    unit="percentunit",
    maximum=1,
    width=12,
    no_value="Unknown: the kernel does not measure it",
)
