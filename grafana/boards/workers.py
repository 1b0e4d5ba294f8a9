"""Page of all worker pods: their activity and resource usage."""

from functools import partial
from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode
from grafana_foundation_sdk.models.dashboard import VariableSort

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.boards import nodes
from grafana.boards.activity import ACTIVITY, WORK, short_names
from grafana.graphs import figure, lines
from grafana.panels import WORKER_COLOURS, Overrides, band, dashed, fixed
from grafana.queries import (
    CORES,
    SECONDS,
    PanelQuery,
    age,
    by,
    called,
    column,
    graph,
    rate,
    run_range,
    value,
)
from grafana.table_panels import RANGE_OF_RUN, PanelColumn, rows, share
from mlbench.contract.palette import GREY, RED

_PODS: Final = 'pod=~"$pod"'
_NODES: Final = 'node=~"$node"'
_CHOSEN: Final = f"{{{_PODS},{_NODES}}}"
_PRESENT: Final = by("pod", f"mlbench_pod_info{_CHOSEN}")


def _here(expr: str, pods: str = _PRESENT) -> str:
    """Restrict series with a pod but no node to the chosen nodes."""
    return f"({expr}) and on (pod) {pods}"


def _bytes(*counters: str) -> str:
    """Return the sum of the rates of byte counters, by container."""
    return " + ".join(rate(f"container_{counter}_bytes_total{_CHOSEN}") for counter in counters)


def _peak(gauge: str) -> str:
    """Return the highest value of a gauge in each step of a graph."""
    return f"max_over_time({gauge}{_CHOSEN}[$__rate_interval])"


_CPU = rate(f"container_cpu_usage_seconds_total{_CHOSEN}")
_MEMORY = _peak("container_memory_working_set_bytes")
_GPU = _peak("mlbench_gpu_utilization_ratio")
_SILENT_FOR = _here(by("pod", age(f"mlbench_pod_heartbeat_timestamp_seconds{{{_PODS}}}")))
_HAD_RANK: Final = f'last_over_time(mlbench_worker_info{{{_PODS},run_id!=""}}[30s])'
_WORKING = _here(by("pod", f'{_HAD_RANK} unless on (pod) mlbench_worker_info{{run_id=""}}'))
_NOT_RUNNING = f'mlbench_pod_info{{{_PODS},{_NODES},phase!="Running"}}'
_ALERTS: Final = f'ALERTS{{{_PODS},alertname=~"MLBench.*",alertstate="firing"}}'
# Alerts about a pod, and the phase of a pod that does not run; else none.
_WRONG = (
    f'label_replace({_here(_ALERTS)}, "trouble", "$1", "alertname", "MLBench(.*)")'
    f' or label_replace({_NOT_RUNNING}, "trouble", "$1", "phase", "(.*)")'
)
_TROUBLE = by(
    "pod, trouble", f"{_WRONG} or {called('trouble', '-', _PRESENT)} unless on (pod) ({_WRONG})"
)

# With more workers than this, they are drawn as a band, and only this number by name.
_NAMED: Final = 5
_EDGES: Final = {"least": "min(", "median": "quantile(0.5, ", "most": "max("}
_BY_NAME: Final[Overrides] = {
    **WORKER_COLOURS,
    **band("least", "most"),
    "median": fixed(GREY),
}
# Criterion for the workers that are drawn by name.
_HIGHEST: Final = "{0}"
_LOWEST: Final = "-({0})"
_UNLIKE_OTHERS: Final = "abs({0} - scalar(quantile(0.5, {0})))"


def _of_workers(series: str, worst: str, aggregate: str = "sum") -> PanelQuery:
    """Query a value of each worker; of many workers, the extremes, the median and the worst ones.

    The worst are those with the largest ``worst`` of the value over the whole time range, so that
    they are the same at all its points. To aggregate by pod takes a while, so that is done for
    these alone.
    """
    overall = series.replace("[$__rate_interval]", "[$__range] @ end()")
    named = f"topk({_NAMED}, {worst.format(f'{aggregate} by (pod) ({overall})')})"
    edges = " or ".join(called("pod", name, f"{edge}{series})") for name, edge in _EDGES.items())
    return graph(
        f"{aggregate} by (pod) (({series}) and on (pod) {named})"
        f" or ({edges}) and on () count({series}) > {_NAMED}",
        "{{pod}}",
    )


_AGENTS: Final = f'{_CHOSEN[:-1]},phase="Running",pod!~"run-[0-9]+-rank-[0-9]+"}}'
_NOT_SCRAPED = (
    f"{by('pod', f'mlbench_pod_info{_AGENTS}')}"
    f" unless on (pod) last_over_time(mlbench_worker_info{{{_PODS}}}[30s])"
)
_figure = partial(figure, width=5, height=3)
HEADLINE: Final = (
    _figure(
        "Workers", "Worker pods, in any state.", value(f"count({_PRESENT}) or vector(0)", "workers")
    ),
    _figure(
        "Working",
        "Scraped workers with a rank of an active run.",
        value(f"count({_WORKING}) or vector(0)", "working"),
    ),
    _figure(
        "Not scraped",
        "Running workers that Prometheus has not scraped for 30 s. Their activity and use are "
        "unknown. Should be 0.",
        value(f"count({_NOT_SCRAPED}) or vector(0)", "not scraped"),
        colours=thresholds.ANY_IS_BAD,
    ),
    _figure(
        "Not running",
        "Worker pods in another phase than Running: pending or failed. Should be 0.",
        value(f"count({by('pod', _NOT_RUNNING)}) or vector(0)", "not running"),
        colours=thresholds.ANY_IS_BAD,
    ),
    _figure(
        "Longest silence",
        "Time since the last heartbeat of the worker that has been silent longest. After 30 s "
        "the master declares its rank lost.",
        value(f"topk(1, {short_names(_SILENT_FOR, 'pod')})", "{{pod}}"),
        width=4,
        unit=SECONDS,
        decimals=1,
        colours=thresholds.HEARTBEAT_AGE,
        show=BigValueTextMode.VALUE_AND_NAME,
        no_value="No worker",
    ),
)

_FROM, _TO = run_range()


def _of_run_of_pod(expr: str) -> str:
    """Return a value of the run of each pod."""
    runs = by("pod, run_id", WORK)
    return f"({_here(runs)}) * 0 + on (run_id) group_left () ({expr})"


TABLE: Final = rows(
    "Worker pods",
    "All worker pods, with a row for each alert. Pods with an alert or not running come first. "
    "Click a worker to show only that worker, or a run for its board. Filter and sort by the "
    "column heads.",
    # First, because the columns of later queries are added to these rows.
    column("wrong", _TROUBLE),
    column("info", by("pod, node", f"mlbench_pod_info{_CHOSEN}")),
    column("silent", _SILENT_FOR),
    column("work", _here(by("pod, run_id, rank", WORK))),
    column("cpu", f"sum by (pod) ({_CPU})"),
    column("memory", f"sum by (pod) ({_MEMORY})"),
    column("gpu", f"avg by (pod) ({_GPU})"),
    column("from", _of_run_of_pod(_FROM)),
    column("to", _of_run_of_pod(_TO)),
    columns=(
        PanelColumn("pod", "worker", width=190, links=(links.WORKER,)),
        PanelColumn("trouble", width=150, mappings=thresholds.TROUBLE),
        PanelColumn("silent", "heartbeat", SECONDS, 1, width=95, colours=thresholds.HEARTBEAT_AGE),
        PanelColumn("run_id", "run", width=60, links=(links.RUN_OF_ROW,)),
        PanelColumn("rank", width=65),
        PanelColumn("cpu", "CPU cores", unit="none", decimals=2, width=100),
        PanelColumn("memory", unit="bytes", width=95),
        share("gpu", "GPU", width=65),
        PanelColumn("node"),
        *RANGE_OF_RUN[1:],
    ),
    sort_by="trouble",
    descending=True,
    then_by="worker",
    height=9,
    no_value="No worker",
)

_by_worker = partial(lines, width=12, overrides=_BY_NAME, no_value="No scraped worker")
USED: Final = (
    _by_worker(
        "CPU cores by worker",
        "CPU cores in use by each worker. In a run, a worker far below the others waits or "
        "hangs. With many workers: the five furthest from the median.",
        _of_workers(_CPU, _UNLIKE_OTHERS),
    ),
    _by_worker(
        "Memory by worker",
        "Memory of each worker that cannot be reclaimed. The kernel kills a worker that reaches "
        "its limit. With many workers: the five with most.",
        _of_workers(_MEMORY, _HIGHEST),
        graph(f"min(container_spec_memory_limit_bytes{_CHOSEN} > 0)", "limit"),
        unit="bytes",
        overrides={**_BY_NAME, "limit": dashed(RED)},
    ),
)

_REACHED = rate(f"container_cpu_cfs_throttled_periods_total{_CHOSEN}")
_COUNTED = rate(f"container_cpu_cfs_periods_total{_CHOSEN}")
_NO_LIMIT: Final = "Unknown: no worker has a CPU limit"
LIMITS: Final = (
    nodes.WAITING,
    _by_worker(
        "CPU pressure by worker",
        "Share of time in which some process of a worker waited for a core, because of other "
        "programs or its CPU limit. Low is good. With many workers: the five that waited most.",
        _of_workers(
            rate(f"container_pressure_cpu_waiting_seconds_total{_CHOSEN}"), _HIGHEST, "max"
        ),
        unit="percentunit",
        no_value="Unknown: kernel or kubelet do not measure it for containers",
    ),
    _by_worker(
        "CPU throttling by worker",
        "Share of scheduling periods (usually 0.1 s) in which a worker used up its CPU limit and "
        "was paused. In synchronous training, each pause delays all ranks. With many workers: "
        "the five with most.",
        _of_workers(f"{_REACHED} / ({_COUNTED} > 0)", _HIGHEST, "max"),
        unit="percentunit",
        no_value=_NO_LIMIT,
    ),
    _by_worker(
        "Cores lost to the CPU limit by worker",
        "CPU cores that a worker could have used without its limit: the largest possible gain of "
        "a higher limit. With many workers: the five that lost most.",
        _of_workers(rate(f"container_cpu_cfs_throttled_seconds_total{_CHOSEN}"), _HIGHEST),
        unit=CORES,
        no_value=_NO_LIMIT,
    ),
)

MORE: Final = (
    _by_worker(
        "Network by worker",
        "Bytes per second that each worker receives and sends. With many workers: the five "
        "furthest from the median.",
        _of_workers(_bytes("network_receive", "network_transmit"), _UNLIKE_OTHERS),
        unit="Bps",
        width=8,
        no_value="Unknown: workers share the network of their machine",
    ),
    _by_worker(
        "Disk by worker",
        "Bytes per second that each worker reads and writes. With many workers: the five busiest.",
        _of_workers(_bytes("fs_reads", "fs_writes"), _HIGHEST),
        unit="Bps",
        width=8,
    ),
    _by_worker(
        "Threads by worker",
        "Threads of each worker's processes. Many more threads than cores slow each other down. "
        "With many workers: the five with most.",
        _of_workers(_peak("container_threads"), _HIGHEST),
        width=8,
    ),
)

_gpus = partial(_by_worker, width=8, no_value="No worker uses a GPU")
GPU: Final = (
    _gpus(
        "GPU use",
        "Share of time in which each worker's GPUs compute. Higher is better. With many workers: "
        "the five with least.",
        _of_workers(_GPU, _LOWEST, "avg"),
        unit="percentunit",
        maximum=1,
    ),
    _gpus(
        "GPU memory",
        "Share of each worker's GPU memory in use. With many workers: the five with most.",
        _of_workers(
            f"{_peak('mlbench_gpu_memory_used_bytes')} / {_peak('mlbench_gpu_memory_total_bytes')}",
            _HIGHEST,
            "avg",
        ),
        unit="percentunit",
        maximum=1,
    ),
    _gpus(
        "GPU power",
        "Power of each worker's GPUs, in watts. With many workers: the five furthest from the "
        "median.",
        _of_workers(_peak("mlbench_gpu_power_watts"), _UNLIKE_OTHERS),
        unit="watt",
    ),
)

BOARD: Final = Board(
    uid="mlbench-workers",
    title="MLBench / Workers",
    description="All worker pods: activity, and use of CPU, memory and network.",
    source="grafana/boards/workers.py",
    time_from="now-15m",
    history=False,
    variables=(
        variables.query(
            "node",
            "Nodes",
            "label_values(mlbench_pod_info, node)",
            multi=True,
            all_value=".*",
            description="Nodes whose workers are shown.",
        ),
        variables.query(
            "pod",
            "Workers",
            f"label_values(mlbench_pod_info{{{_NODES}}}, pod)",
            multi=True,
            all_value=".*",
            sort=VariableSort.NUMERICAL_ASC,
            description="Workers shown in all panels.",
        ),
    ),
    rows=(
        Row("Workers and their nodes", (*HEADLINE, ACTIVITY, nodes.TABLE, TABLE)),
        Row("CPU and memory", USED),
        Row("CPU limits and resource pressure", LIMITS, collapsed=True),
        Row("GPUs", GPU, collapsed=True),
        Row("Network, disk and threads", MORE, collapsed=True),
    ),
)
