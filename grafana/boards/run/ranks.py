"""The run's ranks: where each ran, how to get at its logs, and what its worker used."""

from functools import partial
from typing import Final

from grafana import links, thresholds
from grafana.boards.run.queries import OF_RANKS, RANKS, RUN, of_pods, of_ranks
from grafana.graphs import lines
from grafana.panels import NO_DATA, dashed, markdown
from grafana.queries import CORES, by, column, graph, latest, newest_in_step, rate, while_running
from grafana.tables import Column, rows
from mlbench import names, palette

RANK_TABLE: Final = rows(
    "Ranks",
    "Each rank of the run, the slowest first: how long it computes for a step against the median "
    "of the others, how far it came and when, where it ran. A click on its name leads to its log.",
    column("info", by("rank, pod", latest(f"mlbench_worker_info{{{RANKS}}}"))),
    column("running", by("rank", latest(f"mlbench_worker_running{{{RANKS}}}"))),
    column(
        "ratio",
        f"avg by (rank) (avg_over_time(run_rank:mlbench_worker_straggler:ratio1m{{{RANKS}}}"
        "[$__range]))",
    ),
    column("step", by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.STEP}"}}'))),
    column("age", by("rank", f"run_rank:mlbench_worker_progress:age_seconds{{{RANKS}}}")),
    column(
        "loss", by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.TRAIN_LOSS}"}}'))
    ),
    columns=(
        Column("rank", width=70, links=(links.log_of_rank("stdout"), links.log_of_rank("stderr"))),
        Column(
            "ratio",
            "vs others",
            unit="none",
            decimals=2,
            width=135,
            colours=thresholds.STRAGGLER,
        ),
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
_CPU = of_pods(rate("container_cpu_usage_seconds_total"))
_PODS = by("pod, run_id", newest_in_step(f"mlbench_worker_info{{{RUN}}}"))
_HELD = newest_in_step("container_memory_working_set_bytes")
_PODS_ON_NODES = f"count by (run_id, node) ({_HELD} * on (pod) group_left (run_id) {_PODS})"
_CORES = by("node", newest_in_step("machine_cpu_cores"))
# What the order says; without it, the share of each of the run's workers on a machine.
_CPU_LIMIT = (
    f"max by (run_id) (mlbench_run_cpus{{{RUN}}}) or on (run_id)"
    f" min by (run_id) (1 / ({_PODS_ON_NODES} / on (node) group_left () {_CORES}))"
)
# A query of each rank costs much of Prometheus.
_by_rank = partial(lines, data_points=100, overrides={**OF_RANKS, "limit": dashed(palette.RED)})
RESOURCES: Final = (
    _by_rank(
        "CPU",
        "Processor cores that each rank uses, and the limit: those that it may use, or its share "
        "of its machine. A rank far below it waits for something. Of many: the five that use the "
        "most, and the band of all.",
        graph(of_ranks(_CPU), "{{rank}}"),
        graph(while_running(_CPU_LIMIT, RUN), "limit"),
        unit=CORES,
        no_value="No CPU use in this range",
    ),
    _by_rank(
        "GPU",
        "Share of the time in which each rank's GPUs compute. Below 80 % the workers wait for "
        "data or for each other. Of many ranks: the five that compute the least.",
        graph(
            of_ranks(of_pods(newest_in_step("mlbench_gpu_utilization_ratio"), "avg"), "bottomk"),
            "{{rank}}",
        ),
        unit="percentunit",
        most=1,
        no_value="No GPU in use in this range",
    ),
    _by_rank(
        "Memory",
        "Memory that each rank holds and that cannot be freed. A curve that climbs all the time "
        "is a leak; at its limit, if it has one, a worker is killed.",
        graph(of_ranks(of_pods(_HELD)), "{{rank}}"),
        unit="bytes",
        no_value="No memory use in this range",
    ),
)

MORE_RESOURCES: Final = (
    _by_rank(
        "GPU memory",
        "Memory of its GPUs that each rank holds.",
        graph(of_ranks(of_pods(newest_in_step("mlbench_gpu_memory_used_bytes"))), "{{rank}}"),
        unit="bytes",
        no_value="No GPU in use in this range",
    ),
    _by_rank(
        "GPU power",
        "Power that each rank's GPUs draw.",
        graph(of_ranks(of_pods(newest_in_step("mlbench_gpu_power_watts"))), "{{rank}}"),
        unit="watt",
        no_value="No GPU in use in this range",
    ),
    *(
        _by_rank(
            title,
            description,
            graph(of_ranks(of_pods(rate(f"container_{counter}_bytes_total"))), "{{rank}}"),
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
