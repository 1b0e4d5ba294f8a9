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
from grafana.queries import CORES, by, column, graph, latest, newest_in_step, rate
from grafana.tables import Column, rows, share
from mlbench.contract import names, palette


def _of_each(rule: str, figure: str) -> str:
    """Return a figure by rank: of all ranks during the run, else of the rank in the result."""
    return by("rank", result_or(f"{rule}{{{RANKS}}}", figure, "run_id, rank", RANKS))


def _newest(metric: str) -> str:
    is_it = f'metric="{metric}"'
    chosen = latest(f"mlbench_run_metric{{{RANKS},{is_it}}}")
    return by("rank", f"{newest_kept(RUN, is_it)} and on (rank) {chosen}")


RANK_TABLE: Final = rows(
    "Ranks",
    "Each rank of the run, the slowest first: how long it computes for a step against the median "
    "of the others, for which part of the time other programs kept it from its core, how far it "
    "came and when, where it ran. The first two are of the last minute; of a run that has ended, "
    "what its result says of the rank that was late most, and of the one that waited most: of the "
    "first, how many times as fast it would be if none were late. A rank's name leads to its log.",
    column("info", by("rank, pod", latest(f"mlbench_worker_info{{{RANKS}}}"))),
    column("running", by("rank", latest(f"mlbench_worker_running{{{RANKS}}}"))),
    column("ratio", _of_each(RATIO, names.RUN_STRAGGLER)),
    column("waited", _of_each(DISTURBED, names.RUN_WAITING_RATIO)),
    column("step", _newest(names.STEP)),
    column("age", by("rank", f"run_rank:mlbench_worker_progress:age_seconds{{{RANKS}}}")),
    column("loss", _newest(names.TRAIN_LOSS)),
    columns=(
        Column("rank", width=70, links=(links.log_of_rank("stdout"), links.log_of_rank("stderr"))),
        Column("ratio", "vs others", "none", 2, width=135, colours=thresholds.STRAGGLER),
        share("waited", "core taken", width=110, colours=thresholds.DISTURBED),
        Column("step", unit="none", decimals=0, width=80),
        Column("age", "last step ago", unit="s", decimals=0, width=145),
        Column("loss", "train loss", unit="short", width=110),
        Column("running", "process", mappings=thresholds.PROCESS, width=90),
        Column("pod"),
    ),
    sort_by="vs others",
    descending=True,
    no_value="No worker in this range",
)

MASTER: Final = markdown(
    "Logs and downloads",
    "What the master holds of this run. The browser asks for the token, as a password.",
    """\
[End of rank 0's output](${master:raw}/api/runs/${run_id}/logs/?rank=0&stream=stdout&tail=1000) \
· [and its errors](${master:raw}/api/runs/${run_id}/logs/?rank=0&stream=stderr&tail=1000)

Every recorded value, with the resource use of the run's pods: \
[zip](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=zip) \
· [csv](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=csv) \
· [json](${master:raw}/api/metrics/${run_id}/?metric_type=run&format=json)

[The run as the API shows it](${master:raw}/api/runs/${run_id}/)

A click on a rank in the table leads to its logs. The browser asks for a password: the token in \
the address that `mlbench up` prints. In a terminal: `mlbench logs ${run_id}`, \
`mlbench download ${run_id}`.
""",
    width=24,
    height=6,
)

_SHARED_NETWORK = "Not known: the workers share their machine's network"
# At the end of the time range, because a machine does not change.
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
_use = partial(_by_rank, width=6, no_value="None was scraped in this range")
RESOURCES: Final = (
    _use(
        "Core taken by other programs",
        "Share of the time in which each rank waits for a core that another program has, or a "
        "hypervisor has its cores. Above the dashed line the run is disturbed: its times are not "
        "its own. Of many ranks: the five that wait most, and the band of all.",
        of_rule(DISTURBED),
        unit="percentunit",
        limits=thresholds.DISTURBED,
    ),
    _use(
        "CPU",
        "Processor cores that each rank uses, and the limit: those that it may use, or its share "
        "of its machine. A rank far below it waits for something. Of many: the five that use the "
        "most, and the band of all.",
        of_rule("run_rank_pod:container_cpu_usage_seconds:irate1m"),
        graph(until_end(_CPU_LIMIT), "limit"),
        unit=CORES,
    ),
    _use(
        "GPU",
        "Share of the time in which each rank's GPUs compute. Below 80 % the workers wait for "
        "data or for each other. Of many ranks: the five that compute the least.",
        of_rule("run_rank_pod:mlbench_gpu_utilization_ratio:avg", "bottomk"),
        unit="percentunit",
        most=1,
        no_value="No GPU in use in this range",
    ),
    _use(
        "Memory",
        "Memory that each rank holds and that cannot be freed. A curve that climbs all the time "
        "is a leak; at its limit, if it has one, a worker is killed.",
        of_rule("run_rank_pod:container_memory_working_set_bytes:sum"),
        unit="bytes",
    ),
)

MORE_RESOURCES: Final = (
    _by_rank(
        "Cores lost to the CPU limit",
        "Processor cores for which each rank had work, and which the limit of its container kept "
        "from it. Where it is above 0, more cores would make it faster.",
        of_ranks(_rate_of_rank("mlbench_worker_throttled_seconds_total")),
        unit=CORES,
        no_value="Not known: its container tells no limit",
    ),
    _by_rank(
        "Waiting for cores, memory or disk",
        "Share of the time in which some process of each rank's container waited for a core, for "
        "memory to be freed or for a disk: the sum of the three.",
        of_ranks(_rate_of_rank("mlbench_worker_pressure_seconds_total", 'of="pod"')),
        unit="percentunit",
        no_value="Not known: the kernel does not count it for containers",
    ),
    _by_rank(
        "GPU memory",
        "Memory of its GPUs that each rank holds.",
        of_ranks(of_pods(newest_in_step("mlbench_gpu_memory_used_bytes"))),
        unit="bytes",
        no_value="No GPU in use in this range",
    ),
    _by_rank(
        "GPU power",
        "Power that each rank's GPUs draw.",
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
            ("Received", "Bytes a second from the network.", "network_receive", _SHARED_NETWORK),
            ("Sent", "Bytes a second to the network.", "network_transmit", _SHARED_NETWORK),
            ("Read", "Bytes a second from disk.", "fs_reads", NO_DATA),
            ("Written", "Bytes a second to disk.", "fs_writes", NO_DATA),
        )
    ),
)
