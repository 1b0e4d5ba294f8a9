"""The run's ranks: where each ran, how to get at its logs, and what its worker used."""

from functools import partial
from typing import Final

from grafana import links, thresholds
from grafana.boards.run.queries import RANKS, of_its_pods
from grafana.graphs import lines
from grafana.panels import markdown
from grafana.queries import CORES, by, column, graph, latest, rate
from grafana.tables import Column, rows
from mlbench import names

RANK_TABLE: Final = rows(
    "Ranks",
    "Each rank of the run: where it ran, how far it came, how fast it was, and what it wrote.",
    column("info", by("rank, pod", latest(f"mlbench_worker_info{{{RANKS}}}"))),
    column("running", by("rank", latest(f"mlbench_worker_running{{{RANKS}}}"))),
    column("step", by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.STEP}"}}'))),
    column(
        "samples", by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.SAMPLES}"}}'))
    ),
    column("p50", by("rank", latest(f"run_rank:mlbench_worker_step_seconds:p50_1m{{{RANKS}}}"))),
    column("p95", by("rank", latest(f"run_rank:mlbench_worker_step_seconds:p95_1m{{{RANKS}}}"))),
    column("ratio", by("rank", latest(f"run_rank:mlbench_worker_straggler:ratio1m{{{RANKS}}}"))),
    column(
        "loss", by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.TRAIN_LOSS}"}}'))
    ),
    columns=(
        Column("rank", width=70, links=(links.log_of_rank("stdout"), links.log_of_rank("stderr"))),
        Column("pod", width=240),
        Column("running", "process", mappings=thresholds.PROCESS),
        Column("step", unit="none", decimals=0),
        Column("samples", unit="none", decimals=0),
        Column("p50", "step p50", unit="s"),
        Column("p95", "step p95", unit="s"),
        Column("ratio", "against others", unit="none", decimals=2, colours=thresholds.STRAGGLER),
        Column("loss", "train loss", unit="short"),
    ),
    sort_by="rank",
    width=17,
    no_value="The run has got no worker",
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
    width=7,
    height=9,
)

_by_worker = partial(lines, width=12, table=True)
RESOURCES: Final = (
    _by_worker(
        "CPU cores by worker",
        "Processor cores that each worker uses. Two workers on a machine of two cores have to "
        "share them; a worker below its share waits for something.",
        graph(of_its_pods(rate("container_cpu_usage_seconds_total")), "rank {{rank}} {{pod}}"),
        unit=CORES,
    ),
    _by_worker(
        "Memory by worker",
        "Memory that each worker holds and that cannot be freed. A curve that climbs all the "
        "time is a leak; at its limit, if it has one, a worker is killed.",
        graph(of_its_pods("container_memory_working_set_bytes"), "rank {{rank}} {{pod}}"),
        unit="bytes",
    ),
    _by_worker(
        "Network by worker",
        "Bytes a second that each worker receives (above) and sends (below).",
        graph(of_its_pods(rate("container_network_receive_bytes_total")), "rank {{rank}} receives"),
        graph(
            "-(" + of_its_pods(rate("container_network_transmit_bytes_total")) + ")",
            "rank {{rank}} sends",
        ),
        unit="Bps",
        least=None,
        no_value="Not known: the workers share the network of their machine",
    ),
    _by_worker(
        "Disk by worker",
        "Bytes a second that each worker reads from disk (above) and writes to it (below).",
        graph(of_its_pods(rate("container_fs_reads_bytes_total")), "rank {{rank}} reads"),
        graph(
            "-(" + of_its_pods(rate("container_fs_writes_bytes_total")) + ")",
            "rank {{rank}} writes",
        ),
        unit="Bps",
        least=None,
    ),
)

_gpu = partial(lines, no_value="The run uses no GPU")
GPU: Final = (
    _gpu(
        "GPU use by worker",
        "Share of the time in which a GPU computes. Below 80 % the workers wait for data or for "
        "each other.",
        graph(of_its_pods("mlbench_gpu_utilization_ratio"), "rank {{rank}} {{pod}}"),
        unit="percentunit",
        most=1,
    ),
    _gpu(
        "GPU memory by worker",
        "Memory of its GPUs that each worker holds.",
        graph(of_its_pods("mlbench_gpu_memory_used_bytes"), "rank {{rank}} {{pod}}"),
        unit="bytes",
    ),
    _gpu(
        "GPU power by worker",
        "Power that each worker's GPUs draw.",
        graph(of_its_pods("mlbench_gpu_power_watts"), "rank {{rank}} {{pod}}"),
        unit="watt",
    ),
)
