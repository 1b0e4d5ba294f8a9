"""The run's ranks in a table, and the way to their logs and to all that was recorded."""

from typing import Final

from grafana import links, thresholds
from grafana.boards.run.queries import RANKS
from grafana.panels import words
from grafana.queries import (
    by,
    column,
    latest,
)
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
        Column("ratio", "against median", unit="none", decimals=2, colours=thresholds.STRAGGLER),
        Column("loss", "train loss", unit="short"),
    ),
    sort_by="rank",
    width=17,
    no_value="The run has got no worker",
)

MASTER: Final = words(
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
