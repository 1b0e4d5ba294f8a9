"""The page of one run, from its goal down to the resources of each worker."""

from typing import Final

from grafana_foundation_sdk.models.dashboard import VariableSort

from grafana import thresholds, variables
from grafana.board import Board, Row
from grafana.boards.run.learning import HEADLINE, LEARNING
from grafana.boards.run.queries import BAND, PHASES, RUN, over_ranks
from grafana.boards.run.ranks import GPU, MASTER, RANK_TABLE, RESOURCES
from grafana.boards.run.speed import SPEED, STEPS
from grafana.graphs import lines, timeline
from grafana.queries import graph, or_none, recorded
from mlbench import names

# Metrics with a panel of their own, and totals. All others are repeated at the end.
SHOWN: Final = "|".join(
    (
        names.TRAIN_LOSS,
        names.TRAIN_ACCURACY,
        names.VAL_ACCURACY,
        names.LEARNING_RATE,
        names.EPOCH,
        names.STEP,
        names.SAMPLES,
        names.TRAIN_SECONDS,
        PHASES,
    )
)

ALERTS: Final = timeline(
    "Alerts over time",
    "When which alert fired for this run. Its runbook is in docs/runbooks, in a file of its name.",
    graph(
        or_none(
            f'max by (alertname, severity, rank) (ALERTS{{{RUN},alertstate="firing"}})',
            "alertname",
            "no alert",
        ),
        "{{alertname}} {{severity}} {{rank}}",
    ),
    mappings=thresholds.FIRING,
    height=5,
)

OTHERS: Final = lines(
    "$other_metric",
    "A metric that the run's code records: the mean of all ranks, and the band between the lowest "
    "and the highest.",
    *(recorded(expr, curve) for curve, expr in over_ranks("$other_metric").items()),
    unit="short",
    width=6,
    least=None,
    overrides=BAND,
    repeat="other_metric",
    no_value="The run records nothing else",
)

BOARD: Final = Board(
    uid="mlbench-run",
    title="MLBench / Run",
    description="One run: how near its goal, how fast, where its time goes, what holds it up.",
    source="grafana/boards/run/",
    time_from="now-15m",
    history=False,
    variables=(
        variables.run(),
        variables.query(
            "rank",
            "Ranks",
            f"label_values(mlbench_run_metric{{{RUN}}}, rank)",
            multi=True,
            all_value=".*",
            sort=VariableSort.NUMERICAL_ASC,
            description="Which ranks to show, where a panel shows ranks.",
        ),
        variables.query(
            "goal", "Goal metric", f"label_values(mlbench_run_goal{{{RUN}}}, metric)", hidden=True
        ),
        variables.query(
            "other_metric",
            "Other metrics",
            f'label_values(mlbench_run_metric{{{RUN},metric!~"{SHOWN}"}}, metric)',
            multi=True,
            hidden=True,
        ),
        variables.master(),
    ),
    runs=RUN,
    rows=(
        Row("Run ${run_id:text}", HEADLINE),
        Row("Learning", LEARNING),
        Row("Speed", SPEED),
        Row("Steps, phases, stragglers", STEPS),
        Row("Ranks and logs", (RANK_TABLE, MASTER)),
        Row("Resources of the run's workers", RESOURCES),
        Row("GPUs of the run's workers", GPU, collapsed=True),
        Row("Alerts", (ALERTS,)),
        Row("Everything else that the run records", (OTHERS,)),
    ),
)
