"""The page of all worker pods: what each does, and what it uses."""

from functools import partial
from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode
from grafana_foundation_sdk.models.dashboard import VariableSort

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.figures import bars, figure
from grafana.graphs import distribution, lines, timeline
from grafana.queries import CORES, age, by, column, graph, history, rate, value
from grafana.tables import Column, rows
from grafana.transformations import states

PODS: Final = 'pod=~"$pod"'
_NODES: Final = 'node=~"$node"'


def _rate_by_pod(counter: str) -> str:
    return f"sum by (pod) ({rate(f'{counter}{{{PODS}}}')})"


_CPU = _rate_by_pod("container_cpu_usage_seconds_total")
_MEMORY = f"sum by (pod) (container_memory_working_set_bytes{{{PODS}}})"
_RECEIVED = _rate_by_pod("container_network_receive_bytes_total")
_SENT = _rate_by_pod("container_network_transmit_bytes_total")
_GPU = f"avg by (pod) (mlbench_gpu_utilization_ratio{{{PODS}}})"
_SILENT_FOR = by("pod", age(f"mlbench_pod_heartbeat_timestamp_seconds{{{PODS}}}"))
_PRESENT = by("pod", f"mlbench_pod_info{{{PODS}}}")
_WORKING = by("pod", f'mlbench_worker_info{{{PODS},run_id!=""}}')
_NOT_RUNNING = by("pod", f'mlbench_pod_info{{{PODS},phase!="Running"}}')
_CORES = by("node", f"machine_cpu_cores{{{_NODES}}}")
_MACHINE_MEMORY = by("node", f"machine_memory_bytes{{{_NODES}}}")
_OWN_NETWORK = "Not known: the workers share the network of their machine"

HEADLINE: Final = (
    figure(
        "Workers",
        "Worker pods, whatever they do.",
        value(f"count({_PRESENT}) or vector(0)", "workers"),
    ),
    figure(
        "Working",
        "Workers that have a rank of a run.",
        value(f"count({_WORKING}) or vector(0)", "working"),
    ),
    figure(
        "Not running",
        "Worker pods that are not in the phase Running: pending, or failed.",
        value(f"count({_NOT_RUNNING}) or vector(0)", "not running"),
        colours=thresholds.ANY_IS_BAD,
    ),
    figure(
        "Longest silence",
        "How long ago the master heard of the worker that it has not heard of for longest. After "
        "30 s it gives a worker up.",
        value(f"max({_SILENT_FOR})", "silence"),
        unit="s",
        decimals=1,
        colours=thresholds.HEARTBEAT_AGE,
        no_value="No worker",
    ),
    figure(
        "CPU",
        "Processor cores that the chosen workers use, and those that their nodes have.",
        graph(f"sum({_CPU})", "used"),
        graph(f"sum({_CORES})", "there are"),
        unit=CORES,
        decimals=1,
        width=4,
    ),
    figure(
        "Memory",
        "Memory that the chosen workers hold, and what their nodes have.",
        graph(f"sum({_MEMORY})", "used"),
        graph(f"sum({_MACHINE_MEMORY})", "there is"),
        unit="bytes",
        width=4,
    ),
    figure(
        "Network",
        "Bytes a second that the chosen workers receive, all together.",
        graph(f"sum({_RECEIVED})", "received"),
        unit="Bps",
        width=4,
        sparkline=True,
        no_value=_OWN_NETWORK,
    ),
)

TABLE: Final = rows(
    "Worker pods",
    "Every worker pod, what it does now and what it uses. A click on a run leads to it. Filter "
    "and sort by the column heads.",
    column("info", by("pod, phase, node", f"mlbench_pod_info{{{PODS}}}")),
    column("work", by("pod, run_id, rank", f"mlbench_worker_info{{{PODS}}}")),
    column("cpu", _CPU),
    column("memory", _MEMORY),
    column("received", _RECEIVED),
    column("sent", _SENT),
    column("gpu", _GPU),
    column("silent", _SILENT_FOR),
    columns=(
        Column("pod", width=240),
        Column("phase", width=100, mappings=thresholds.POD_PHASE),
        Column("node"),
        Column("run_id", "run", width=80, links=(links.RUN_OF_WORKER,)),
        Column("rank", width=80),
        Column("cpu", "CPU", unit=CORES, decimals=2),
        Column("memory", unit="bytes"),
        Column("received", "network in", unit="Bps"),
        Column("sent", "network out", unit="Bps"),
        Column("gpu", "GPU", unit="percentunit", decimals=0),
        Column("silent", "heard of", unit="s", decimals=1, colours=thresholds.HEARTBEAT_AGE),
    ),
    sort_by="pod",
    height=9,
    no_value="No worker",
)

EVERYONE: Final = (
    figure(
        "CPU cores of each worker",
        "One small graph for each worker, all to the same scale: the cores that it uses. One that "
        "looks different from the others is worth a look.",
        graph(_CPU, "{{pod}}"),
        decimals=2,
        width=24,
        height=8,
        sparkline=True,
        show=BigValueTextMode.VALUE_AND_NAME,
        no_value="No worker",
    ),
    distribution(
        "CPU of all workers",
        "How many workers use how many cores: the darker, the more of them. One narrow line says "
        "that all do the same; a second line is a group that does something else.",
        graph(_CPU, "{{pod}}"),
        unit=CORES,
    ),
    distribution(
        "Memory of all workers",
        "How many workers hold how much memory: the darker, the more of them.",
        graph(_MEMORY, "{{pod}}"),
        unit="bytes",
    ),
    distribution(
        "Network of all workers",
        "How many workers receive and send how many bytes a second: the darker, the more of them.",
        graph(f"{_RECEIVED} + {_SENT}", "{{pod}}"),
        unit="Bps",
    ),
)

EXTREMES: Final = (
    bars(
        "Busiest workers",
        "The ten workers that use most cores now.",
        value(f"sort_desc(topk(10, {_CPU}))", "{{pod}}"),
        unit=CORES,
        decimals=2,
        no_value="No worker",
    ),
    bars(
        "Quietest workers",
        "The ten workers that use fewest cores now. During a run, who is here waits or hangs.",
        value(f"sort(bottomk(10, {_CPU}))", "{{pod}}"),
        unit=CORES,
        decimals=2,
        no_value="No worker",
    ),
    bars(
        "Largest workers",
        "The ten workers that hold most memory now.",
        value(f"sort_desc(topk(10, {_MEMORY}))", "{{pod}}"),
        unit="bytes",
        no_value="No worker",
    ),
)

_RANK_NAMES = (
    "label_replace(label_replace(label_join(max by (pod, run_id, rank) "
    f'(mlbench_worker_info{{{PODS}}}), "both", ";", "run_id", "rank"), '
    '"work", "idle", "", ""), "work", "run $1 rank $2", "both", "(.+);(.+)")'
)

HISTORY: Final = (
    timeline(
        "What each worker did",
        "Which rank of which run each worker had. Grey is idle; in a gap there was no worker.",
        history("work", _RANK_NAMES),
        mappings=thresholds.RANK_COLOURS,
        transformations=states("pod", "work"),
        height=9,
        no_value="No worker",
    ),
)

_by_worker = partial(lines, width=12, table=True, no_value="No worker")
BY_WORKER: Final = (
    _by_worker(
        "CPU cores by worker",
        "Processor cores that each worker uses.",
        graph(_CPU, "{{pod}}"),
        unit=CORES,
    ),
    _by_worker(
        "Memory by worker",
        "Memory that each worker holds and that cannot be freed. The kernel kills a worker that "
        "reaches its limit.",
        graph(_MEMORY, "{{pod}}"),
        unit="bytes",
    ),
    _by_worker(
        "Network in by worker",
        "Bytes a second that each worker receives.",
        graph(_RECEIVED, "{{pod}}"),
        unit="Bps",
        no_value=_OWN_NETWORK,
    ),
    _by_worker(
        "Network out by worker",
        "Bytes a second that each worker sends.",
        graph(_SENT, "{{pod}}"),
        unit="Bps",
        no_value=_OWN_NETWORK,
    ),
    _by_worker(
        "Threads by worker",
        "Threads of all processes of each worker. Many more than cores slow each other down.",
        graph(f"sum by (pod) (container_threads{{{PODS}}})", "{{pod}}"),
    ),
    _by_worker(
        "Disk by worker",
        "Bytes a second that each worker reads and writes.",
        graph(_rate_by_pod("container_fs_reads_bytes_total"), "{{pod}} reads"),
        graph(_rate_by_pod("container_fs_writes_bytes_total"), "{{pod}} writes"),
        unit="Bps",
    ),
)

_gpus = partial(lines, table=True, no_value="No worker uses a GPU")
GPU: Final = (
    _gpus(
        "GPU use",
        "Share of the time in which each GPU computes, whoever uses it.",
        graph(f"mlbench_gpu_utilization_ratio{{{_NODES}}}", "{{node}} GPU {{gpu}} {{pod}}"),
        unit="percentunit",
        most=1,
    ),
    _gpus(
        "GPU memory",
        "Share of each GPU's memory that is taken.",
        graph(
            f"mlbench_gpu_memory_used_bytes{{{_NODES}}}"
            f" / mlbench_gpu_memory_total_bytes{{{_NODES}}}",
            "{{node}} GPU {{gpu}} {{pod}}",
        ),
        unit="percentunit",
        most=1,
    ),
    _gpus(
        "GPU power",
        "Power that each GPU draws.",
        graph(f"mlbench_gpu_power_watts{{{_NODES}}}", "{{node}} GPU {{gpu}} {{pod}}"),
        unit="watt",
    ),
)

BOARD: Final = Board(
    uid="mlbench-workers",
    title="MLBench / Workers",
    description="Every worker pod: what it does, and the processors, memory and network it uses.",
    source="grafana/boards/workers.py",
    time_from="now-15m",
    history=False,
    variables=(
        variables.query(
            "node",
            "Nodes",
            "label_values(mlbench_pod_info, node)",
            multi=True,
            description="The machines whose workers are shown.",
        ),
        variables.query(
            "pod",
            "Workers",
            f"label_values(mlbench_pod_info{{{_NODES}}}, pod)",
            multi=True,
            sort=VariableSort.NUMERICAL_ASC,
            description="Which workers are shown, here and in every panel.",
        ),
    ),
    rows=(
        Row("At a glance", HEADLINE),
        Row("Pods", (TABLE,)),
        Row("All workers at once", EVERYONE),
        Row("Busiest and quietest", EXTREMES),
        Row("What they did", HISTORY),
        Row("Worker by worker", BY_WORKER),
        Row("GPUs", GPU, collapsed=True),
    ),
)
