"""Ranks of the run: their workers, logs and resource usage."""

from functools import partial
from typing import Final

from grafana import links, thresholds
from grafana.boards.run.queries import (
    DISTURBED,
    OF_RANKS,
    RANKS,
    RATIO,
    RUN,
    of_pods,
    of_ranks,
    of_rule,
    result_or,
    until_end,
)
from grafana.graphs import lines
from grafana.line import newest_kept
from grafana.panels import NO_DATA, dashed, markdown
from grafana.queries import CORES, by, column, graph, latest, moment, newest_in_step, rate
from grafana.table_panels import PanelColumn, rows, share
from mlbench.contract import names, palette

_CPU: Final = "run_rank_pod:container_cpu_usage_seconds:irate1m"
_RUNNING: Final = latest(f"mlbench_worker_running{{{RANKS}}}")
# A worker that stops right after the run is not scraped again, and seems to run for five minutes.
_ENDED: Final = moment("finished", f"{{{RUN}}}")
_GPU: Final = "run_rank_pod:mlbench_gpu_utilization_ratio:avg"


def _of_each(rule: str, figure: str) -> str:
    """Return a figure by rank: of all ranks during the run, else of the rank in the result."""
    return by("rank", result_or(f"{rule}{{{RANKS}}}", figure, "run_id, rank", RANKS))


def _newest(metric: str) -> str:
    is_it = f'metric="{metric}"'
    chosen = latest(f"mlbench_run_metric{{{RANKS},{is_it}}}")
    return by("rank", f"{newest_kept(RUN, is_it)} and on (rank) {chosen}")


RANK_TABLE: Final = rows(
    "Ranks",
    "Ranks, slowest first. Straggler ratio: compute time per step relative to the others' median. "
    "CPU contention: share of time in which other programs held its core. Last minute; after the "
    "run, speedup without the straggler, and the worst contention. Click a rank for its log.",
    column("info", by("rank, pod", latest(f"mlbench_worker_info{{{RANKS}}}"))),
    column("running", by("rank", f"{_RUNNING} unless on (run_id) {_ENDED} or {_RUNNING} * 0")),
    column("ratio", _of_each(RATIO, names.RUN_STRAGGLER)),
    column("contention", _of_each(DISTURBED, names.RUN_CONTENTION_RATIO)),
    column("step", _newest(names.STEP)),
    column("age", by("rank", f"run_rank:mlbench_worker_progress:age_seconds{{{RANKS}}}")),
    column("loss", _newest(names.TRAIN_LOSS)),
    column("cpu", by("rank", latest(f"{_CPU}{{{RANKS}}}"))),
    column("gpu", by("rank", latest(f"{_GPU}{{{RANKS}}}"))),
    columns=(
        PanelColumn(
            "rank", width=70, links=(links.log_of_rank("stdout"), links.log_of_rank("stderr"))
        ),
        PanelColumn("ratio", "straggler ratio", "none", 2, width=140, colours=thresholds.STRAGGLER),
        share("contention", "CPU contention", width=130, colours=thresholds.DISTURBED),
        PanelColumn("step", unit="locale", decimals=0, width=80),
        PanelColumn("age", "last step", unit="suffix: s ago", decimals=1, width=105),
        PanelColumn("loss", "train loss", unit="short", width=95),
        PanelColumn("running", "process", mappings=thresholds.PROCESS, width=95),
        PanelColumn("cpu", "CPU cores", unit="none", decimals=2, width=100),
        share("gpu", "GPU", width=70),
        PanelColumn("pod"),
    ),
    sort_by="straggler ratio",
    descending=True,
    no_value="No worker in this range",
)

MASTER: Final = markdown(
    "Logs and downloads",
    "Logs and samples of this run on the master. The browser asks for a password: the token.",
    """\
Rank 0: [output](${master:raw}/api/runs/${run_id}/logs/?rank=0&stream=stdout&tail=1000), \
[errors](${master:raw}/api/runs/${run_id}/logs/?rank=0&stream=stderr&tail=1000) · \
all recorded values: \
[zip](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=zip), \
[csv](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=csv), \
[json](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=json) · \
[the run in the API](${master:raw}/api/runs/${run_id}/) · \
in a terminal: `mlbench logs ${run_id}`, `mlbench download ${run_id}`
""",
    width=24,
    height=3,
)

_SHARED_NETWORK = "Unknown: workers share their machine's network"
# At the end of the time range: a machine does not change.
_INFO = by("pod, run_id", f"last_over_time(mlbench_worker_info{{{RUN}}}[$__range] @ end())")
_HELD = "last_over_time(container_memory_working_set_bytes[$__range] @ end())"
_PODS_ON_NODES = f"count by (run_id, node) ({_HELD} * on (pod) group_left (run_id) {_INFO})"
_CORES = by("node", "last_over_time(machine_cpu_cores[$__range] @ end())")
# Requested cores; without a request, the share of each worker of the run on its machine.
_CPU_LIMIT = (
    f"(max by (run_id) (last_over_time(mlbench_run_cpus{{{RUN}}}[$__range] @ end())) or on (run_id)"
    f" min by (run_id) (1 / ({_PODS_ON_NODES} / on (node) group_left () {_CORES})))"
    f" and on (run_id) {newest_in_step(f'mlbench_run_started_timestamp_seconds{{{RUN}}}')}"
)


def _rate_of_rank(counter: str, only: str = "") -> str:
    """Return a counter's rate by rank."""
    return f"sum by (run_id, rank) ({rate(f'{counter}{{{RANKS},{only}}}')})"


# A query for each rank is expensive for Prometheus.
_by_rank = partial(lines, data_points=100, overrides={**OF_RANKS, "limit": dashed(palette.RED)})
_use = partial(_by_rank, no_value="No scrape in this range")
RESOURCES: Final = (
    _use(
        "CPU contention",
        "Share of time in which a rank was ready to run but another program, or the hypervisor, "
        "held its cores. Above the dashed line (5 %), the run is marked disturbed. With many "
        "ranks: the five highest, with a band of all.",
        of_rule(DISTURBED),
        unit="percentunit",
        limits=thresholds.DISTURBED,
    ),
    _use(
        "CPU",
        "CPU cores in use by each rank, and the limit: its allowed cores, or its share of the "
        "machine. A rank far below the limit waits. With many ranks: the five with most, with a "
        "band of all.",
        of_rule(_CPU),
        graph(until_end(_CPU_LIMIT), "limit"),
        unit=CORES,
    ),
    _use(
        "Memory",
        "Memory of each rank that cannot be reclaimed. Steady growth is a leak. The kernel kills "
        "a worker that reaches its limit.",
        of_rule("run_rank_pod:container_memory_working_set_bytes:sum"),
        unit="bytes",
    ),
)

MORE_RESOURCES: Final = (
    _by_rank(
        "Cores lost to the CPU limit",
        "CPU cores that each rank could have used without its container's limit. Above 0, a "
        "higher limit makes the rank faster.",
        of_ranks(_rate_of_rank("mlbench_worker_throttled_seconds_total")),
        unit=CORES,
        no_value="Unknown: the container reports no limit",
    ),
    _by_rank(
        "Resource pressure",
        "Share of time in which some process of a rank's container waited for a core, for memory "
        "or for a disk: the sum of the three. Low is good.",
        of_ranks(_rate_of_rank("mlbench_worker_pressure_seconds_total", 'of="pod"')),
        unit="percentunit",
        no_value="Unknown: the kernel does not measure it for containers",
    ),
    _by_rank(
        "GPU use",
        "Share of time in which each rank's GPUs compute. Below 80 %, workers wait for data or "
        "for each other. With many ranks: the five with least.",
        of_rule(_GPU, "bottomk"),
        unit="percentunit",
        maximum=1,
        no_value="No GPU in use in this range",
    ),
    _by_rank(
        "GPU memory",
        "GPU memory in use by each rank.",
        of_ranks(of_pods(newest_in_step("mlbench_gpu_memory_used_bytes"))),
        unit="bytes",
        no_value="No GPU in use in this range",
    ),
    _by_rank(
        "GPU power",
        "Power of each rank's GPUs, in watts.",
        of_ranks(of_pods(newest_in_step("mlbench_gpu_power_watts"))),
        unit="watt",
        no_value="No GPU in use in this range",
    ),
    *(
        _by_rank(
            title,
            description,
            of_ranks(of_pods(rate(f"container_{counter}_bytes_total"))),
            unit="Bps",
            no_value=no_value,
        )
        for title, description, counter, no_value in (
            (
                "Received",
                "Bytes per second that each rank receives.",
                "network_receive",
                _SHARED_NETWORK,
            ),
            ("Sent", "Bytes per second that each rank sends.", "network_transmit", _SHARED_NETWORK),
            ("Read", "Bytes per second that each rank reads from disk.", "fs_reads", NO_DATA),
            ("Written", "Bytes per second that each rank writes to disk.", "fs_writes", NO_DATA),
        )
    ),
)
