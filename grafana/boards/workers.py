"""Page of all worker pods: their activity and resource usage."""

from functools import partial
from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode
from grafana_foundation_sdk.models.dashboard import VariableSort

from grafana import links, thresholds, variables
from grafana.board import Board, Row
from grafana.boards import nodes
from grafana.graphs import figure, lines, timeline
from grafana.panels import Overrides, band, dashed, fixed
from grafana.queries import (
    CORES,
    SECONDS,
    Query,
    age,
    by,
    called,
    column,
    graph,
    history,
    rate,
    value,
)
from grafana.tables import Column, rows, share
from grafana.transformations import states
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
_INFO: Final = f"mlbench_worker_info{{{_PODS}}}"
# If a scrape of the worker failed, its values of half a minute ago.
_DOES = f"({_INFO} or on (pod) topk by (pod) (1, last_over_time({_INFO}[30s])))"
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
_BAND: Final[Overrides] = {**band("least", "most"), "median": fixed(GREY)}
# Criterion for the workers that are drawn by name.
_MOST: Final = "{0}"
_LEAST: Final = "-({0})"
_UNLIKE_OTHERS: Final = "abs({0} - scalar(quantile(0.5, {0})))"


def _of_workers(series: str, worst: str, aggregate: str = "sum") -> Query:
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


_figure = partial(figure, width=6, height=3)
HEADLINE: Final = (
    _figure(
        "Workers",
        "Worker pods, whatever they do.",
        value(f"count({_PRESENT}) or vector(0)", "workers"),
    ),
    _figure(
        "Working",
        "Workers that have a rank of a run.",
        value(f"count({_WORKING}) or vector(0)", "working"),
    ),
    _figure(
        "Not running",
        "Worker pods that are not in the phase Running: pending, or failed.",
        value(f"count({by('pod', _NOT_RUNNING)}) or vector(0)", "not running"),
        colours=thresholds.ANY_IS_BAD,
    ),
    _figure(
        "Longest silence",
        "The worker that the master has not heard of for longest, and for how long. After 30 s it "
        "gives a worker up.",
        value(f"topk(1, {_SILENT_FOR})", "{{pod}}"),
        unit=SECONDS,
        decimals=1,
        colours=thresholds.HEARTBEAT_AGE,
        show=BigValueTextMode.VALUE_AND_NAME,
        no_value="No worker",
    ),
)

TABLE: Final = rows(
    "Worker pods",
    "Every worker pod: first those that an alert is about or that do not run, then by name; with "
    "a row for each alert. A click on a worker shows it alone, on a run leads to it. Filter and "
    "sort by the column heads.",
    # First, so that the columns of the others are added to each row of a worker.
    column("wrong", _TROUBLE),
    column("info", by("pod, node", f"mlbench_pod_info{_CHOSEN}")),
    column("silent", _SILENT_FOR),
    column("work", _here(by("pod, run_id, rank", _DOES))),
    column("cpu", f"sum by (pod) ({_CPU})"),
    column("memory", f"sum by (pod) ({_MEMORY})"),
    column("gpu", f"avg by (pod) ({_GPU})"),
    columns=(
        Column("pod", "worker", width=190, links=(links.WORKER,)),
        Column("trouble", width=150, mappings=thresholds.TROUBLE),
        Column("silent", "heard of", SECONDS, 1, width=95, colours=thresholds.HEARTBEAT_AGE),
        Column("run_id", "run", width=60, links=(links.RUN_OF_WORKER,)),
        Column("rank", width=65),
        Column("cpu", "CPU", unit=CORES, decimals=2, width=100),
        Column("memory", unit="bytes", width=95),
        share("gpu", "GPU", width=65),
        Column("node"),
    ),
    sort_by="trouble",
    descending=True,
    then_by="worker",
    height=9,
    no_value="No worker",
)

# Includes deleted pods, and times without a scrape of the master, which reports the nodes.
_EVER_PRESENT = f"last_over_time(mlbench_pod_info{_CHOSEN}[$__range] @ end())"
_RUN_AND_RANK = f'label_join({_here(_DOES, _EVER_PRESENT)}, "both", ";", "run_id", "rank")'
_RANK_NAMES = (
    f"label_replace({called('work', 'idle', _RUN_AND_RANK)},"
    ' "work", "run $1 rank $2", "both", "(.+);(.+)")'
)


def _alerted(alert: str) -> str:
    """Find the pods with an alert in the time range."""
    fired = f'ALERTS{{{_PODS},alertname=~"{alert}",alertstate="firing"}}'
    return by("pod", f"last_over_time({fired}[$__range] @ end())")


# Prometheus sorts series by their labels, of which this is the first.
_WORST_FIRST = " or ".join(
    called("above", str(place), f"({_RANK_NAMES}) {of}")
    for place, of in enumerate(
        (
            f"and on (pod) {_alerted('MLBenchStraggler')}",
            f"and on (pod) {_alerted('MLBench.*')} unless on (pod) {_alerted('MLBenchStraggler')}",
            f"unless on (pod) {_alerted('MLBench.*')}",
        )
    )
)
_SHORT_NAMES = f'label_replace({_WORST_FIRST}, "pod", "$1", "pod", "(?:local-)?(?:mlbench-)?(.*)")'

HISTORY: Final = timeline(
    "What each worker did",
    "Which rank of which run each worker had; the stragglers come first, then others that an alert "
    "was about. A colour is a run, grey is idle. In a gap there was no worker, or its scrapes "
    "failed for more than half a minute.",
    history("work", by("above, pod, work", _SHORT_NAMES)),
    mappings=thresholds.RUN_COLOURS,
    transformations=states("pod", "work"),
    height=11,
    no_value="No worker was scraped",
)

_by_worker = partial(lines, width=12, overrides=_BAND, no_value="No worker was scraped")
USED: Final = (
    _by_worker(
        "CPU cores by worker",
        "Processor cores that each worker uses; of many workers, the five least like the others. "
        "During a run, one far below the others waits or hangs.",
        _of_workers(_CPU, _UNLIKE_OTHERS),
    ),
    _by_worker(
        "Memory by worker",
        "Memory that each worker holds and that cannot be freed; of many workers, the five that "
        "hold most. The kernel kills a worker that reaches its limit.",
        _of_workers(_MEMORY, _MOST),
        graph(f"min(container_spec_memory_limit_bytes{_CHOSEN} > 0)", "limit"),
        unit="bytes",
        overrides={**_BAND, "limit": dashed(RED)},
    ),
)

_REACHED = rate(f"container_cpu_cfs_throttled_periods_total{_CHOSEN}")
_COUNTED = rate(f"container_cpu_cfs_periods_total{_CHOSEN}")
_NO_LIMIT: Final = "Not known: no worker has a CPU limit"
LIMITS: Final = (
    nodes.WAITING,
    _by_worker(
        "Waiting by worker",
        "Share of the time in which some process of each worker waited for a core: for others, or "
        "at its own limit; of many workers, the five that waited most.",
        _of_workers(rate(f"container_pressure_cpu_waiting_seconds_total{_CHOSEN}"), _MOST, "max"),
        unit="percentunit",
        no_value="Not known: kernel or kubelet do not count it for containers",
    ),
    _by_worker(
        "CPU limit reached by worker",
        "Share of the periods, of 0.1 s mostly, in which each worker used up its CPU limit and was "
        "stopped until the next; of many workers, the five with most. In synchronous training "
        "each of these stops holds up all others.",
        _of_workers(f"{_REACHED} / ({_COUNTED} > 0)", _MOST, "max"),
        unit="percentunit",
        no_value=_NO_LIMIT,
    ),
    _by_worker(
        "Cores lost to the CPU limit by worker",
        "Processor cores for which each worker had work, and which its limit kept from it; of many "
        "workers, the five that lost most. More cores would bring so much at most.",
        _of_workers(rate(f"container_cpu_cfs_throttled_seconds_total{_CHOSEN}"), _MOST),
        unit=CORES,
        no_value=_NO_LIMIT,
    ),
)

MORE: Final = (
    _by_worker(
        "Network by worker",
        "Bytes a second that each worker receives and sends; of many, the five least like the "
        "others.",
        _of_workers(_bytes("network_receive", "network_transmit"), _UNLIKE_OTHERS),
        unit="Bps",
        width=8,
        no_value="Not known: the workers share the network of their machine",
    ),
    _by_worker(
        "Disk by worker",
        "Bytes a second that each worker reads and writes; of many, the five busiest.",
        _of_workers(_bytes("fs_reads", "fs_writes"), _MOST),
        unit="Bps",
        width=8,
    ),
    _by_worker(
        "Threads by worker",
        "Threads of all processes of each worker; of many, the five with most. Many more than "
        "cores slow each other down.",
        _of_workers(_peak("container_threads"), _MOST),
        width=8,
    ),
)

_gpus = partial(_by_worker, width=8, no_value="No worker uses a GPU")
GPU: Final = (
    _gpus(
        "GPU use",
        "Share of the time in which the GPUs of each worker compute; of many workers, the five "
        "with least.",
        _of_workers(_GPU, _LEAST, "avg"),
        unit="percentunit",
        most=1,
    ),
    _gpus(
        "GPU memory",
        "Share of the memory of each worker's GPUs that is taken; of many, the five with most.",
        _of_workers(
            f"{_peak('mlbench_gpu_memory_used_bytes')} / {_peak('mlbench_gpu_memory_total_bytes')}",
            _MOST,
            "avg",
        ),
        unit="percentunit",
        most=1,
    ),
    _gpus(
        "GPU power",
        "Power that the GPUs of each worker draw; of many, the five least like the others.",
        _of_workers(_peak("mlbench_gpu_power_watts"), _UNLIKE_OTHERS),
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
            all_value=".*",
            description="The machines whose workers are shown.",
        ),
        variables.query(
            "pod",
            "Workers",
            f"label_values(mlbench_pod_info{{{_NODES}}}, pod)",
            multi=True,
            all_value=".*",
            sort=VariableSort.NUMERICAL_ASC,
            description="Which workers are shown, here and in every panel.",
        ),
    ),
    rows=(
        Row("Workers and their nodes", (*HEADLINE, nodes.TABLE, TABLE, HISTORY)),
        Row("What they use", USED),
        Row("What CPU limits cost, and what waits", LIMITS),
        Row("GPUs", GPU, collapsed=True),
        Row("Network, disk and threads", MORE, collapsed=True),
    ),
)
