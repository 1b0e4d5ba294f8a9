"""How fast the run is, where its time goes, and which rank holds it up."""

from typing import Final

from grafana import thresholds
from grafana.boards.run.queries import PHASES, RANKS, RUN, by_rank, over_ranks
from grafana.figures import bars, figure
from grafana.graphs import lines
from grafana.panels import PHASE_COLOURS
from grafana.queries import graph, latest, rate, recorded, value, while_running
from mlbench import names

SPEED: Final = (
    lines(
        "Throughput",
        "Training samples a second, all ranks together. It should be level; it falls to nothing "
        "while the run evaluates or stands still.",
        graph(
            while_running(
                f"sum by (run_id) ({rate(f'mlbench_worker_samples_total{{{RUN}}}')})", RUN
            ),
            "samples/s",
        ),
        unit="short",
        width=6,
        no_value="The run's code does not count its samples with mlbench.Tracker",
    ),
    lines(
        "Learning rate",
        "The learning rate that each step was done with.",
        recorded(over_ranks(names.LEARNING_RATE)["mean"], "learning rate"),
        unit="sci",
        width=6,
        no_value="The run records no learning_rate",
    ),
    figure(
        "Communication share",
        "Share of the training time that ranks spend on exchanging gradients, waiting for each "
        "other included. A high share says that more workers will not help much.",
        graph(f"run:mlbench_worker_communication:share1m{{{RUN}}}", "communication"),
        unit="percentunit",
        decimals=1,
        width=3,
        height=8,
        colours=thresholds.COMMUNICATION,
        sparkline=True,
        no_value="No phases counted",
    ),
    figure(
        "Slowest rank against the others",
        "How many times as long the slowest rank computes for a step as the median of the others. "
        "Only its own work counts, so one that waits for another is not blamed. Around 1 is good.",
        graph(f"run:mlbench_worker_straggler:ratio1m{{{RUN}}}", "slowest"),
        decimals=2,
        width=3,
        height=8,
        colours=thresholds.STRAGGLER,
        sparkline=True,
        no_value="No steps counted",
    ),
    figure(
        "Last progress",
        "How long ago the rank that is furthest behind did its last step. Over 30 s, and over 30 "
        "of its usual steps, the alert MLBenchRunStalled fires.",
        value(f"run:mlbench_worker_progress:age_seconds{{{RUN}}}", "age"),
        unit="s",
        decimals=0,
        width=3,
        height=8,
        colours=thresholds.PROGRESS_AGE,
        no_value="No rank of the run is training",
    ),
    figure(
        "Alerts of this run",
        "How many alerts fire for this run now. The timeline at the end of the page names them.",
        value(f'count(ALERTS{{{RUN},alertstate="firing"}}) or vector(0)', "firing"),
        width=3,
        height=8,
        colours=thresholds.ANY_IS_BAD,
    ),
)

STEPS: Final = (
    lines(
        "Step time by rank",
        "Duration of a training step over the last minute: the median, and the 95th percentile "
        "that one step in twenty exceeds. All ranks wait for the slowest, so they should agree.",
        *(
            graph(
                f"run_rank:mlbench_worker_step_seconds:{quantile}_1m{{{RANKS}}}",
                f"rank {{{{rank}}}} {quantile}",
            )
            for quantile in ("p50", "p95")
        ),
        unit="s",
        table=True,
        no_value="The run's code does not count its steps with mlbench.Tracker",
    ),
    lines(
        "Where the time goes",
        "Share of each phase in the training time of the last minute, all ranks together. What "
        "is not forward, backward or optimizer is the price of training on several workers.",
        graph(f"run_phase:mlbench_worker_phase_seconds:share1m{{{RUN}}}", "{{phase}}"),
        unit="percentunit",
        most=1,
        stacked=True,
        overrides=PHASE_COLOURS,
        no_value="The run's code does not time phases with mlbench.Tracker",
    ),
    bars(
        "Where the time went",
        "Seconds of each phase over the whole run, the mean of its ranks: recorded after each "
        "epoch and at the end.",
        value(
            "sort_desc(avg by (phase) (label_replace("
            + latest(f'mlbench_run_metric{{{RANKS},metric=~"{PHASES}"}}')
            + ', "phase", "$1", "metric", "(.*)_seconds")))',
            "{{phase}}",
        ),
        unit="s",
        decimals=1,
        overrides=PHASE_COLOURS,
        no_value="The run records no phases",
    ),
    lines(
        "Compute time of a step by rank",
        "A rank's own work in a step against the median of the other ranks: all phases but "
        "communication and evaluation. Above the dashed line a rank holds up all others; the alert "
        "MLBenchStraggler names it if it stays there.",
        graph(
            by_rank(f"run_rank:mlbench_worker_straggler:ratio1m{{{RANKS}}}"),
            "rank {{rank}} on {{pod}}",
        ),
        decimals=2,
        width=12,
        least=0.8,
        table=True,
        limits=thresholds.STRAGGLER,
        no_value="No steps counted",
    ),
    lines(
        "Time since the last step by rank",
        "How long ago each rank made progress. A rank whose line climbs stands still, and with it, "
        "soon, all others.",
        graph(
            by_rank(f"run_rank:mlbench_worker_progress:age_seconds{{{RANKS}}}"),
            "rank {{rank}} on {{pod}}",
        ),
        unit="s",
        width=12,
        table=True,
        no_value="No rank of the run is training",
    ),
)
