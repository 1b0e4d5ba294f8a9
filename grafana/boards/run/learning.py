"""The run at a glance, and how it learns: loss and accuracy, by time and by step."""

from collections.abc import Mapping
from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode
from grafana_foundation_sdk.models.dashboard import Panel

from grafana import thresholds
from grafana.boards.run.queries import BAND, RUN, newest, over_ranks
from grafana.figures import dial, figure
from grafana.graphs import against, lines
from grafana.panels import CURVE_COLOURS, Overrides
from grafana.queries import (
    RECORDED_INTERVAL,
    by,
    column,
    duration,
    history,
    latest,
    moment,
    progress,
    recorded,
    value,
    while_running,
)
from grafana.transformations import over
from mlbench import names

_GOAL = by("run_id, metric", latest(f"mlbench_run_goal{{{RUN}}}"))
_GOAL_VALUE = by("run_id, metric", latest(f'mlbench_run_metric{{{RUN},metric="$goal"}}'))
_PROGRESS = progress(_GOAL_VALUE, _GOAL, moment("goal_reached", f"{{{RUN}}}"))

HEADLINE: Final = (
    figure(
        "State",
        "Where the run is: waiting for workers (INITIALIZED), training (STARTED), or ended.",
        column("states", by("run_id, state", latest(f"mlbench_run_state{{{RUN}}}")) + " == 1"),
        field="/^state$/",
        mappings=thresholds.RUN_STATE,
        no_value="Unknown run",
    ),
    figure(
        "Goal",
        "The metric that the run wants to bring to a value, and that value.",
        value(_GOAL, "{{metric}}"),
        unit="short",
        width=4,
        show=BigValueTextMode.VALUE_AND_NAME,
        no_value="The run has stated no goal",
    ),
    dial(
        "Progress to goal",
        "How near the newest value is to the goal, whether higher or lower is better. "
        "100 % once the goal has been reached.",
        value(_PROGRESS, "progress"),
        unit="percentunit",
        colours=thresholds.GOAL_PROGRESS,
        width=3,
        no_value="No goal, or no value yet",
    ),
    figure(
        "Time to goal",
        "Training time until the goal was reached, evaluation left out: the result of the run.",
        value(by("run_id", latest(f"mlbench_run_time_to_goal_seconds{{{RUN}}}")), "time to goal"),
        unit="s",
        decimals=1,
        colours=thresholds.GOOD,
        no_value="Not reached",
    ),
    figure(
        "Elapsed",
        "Time since the run's start, up to its end if it has ended.",
        value(duration(f"{{{RUN}}}"), "elapsed"),
        unit="s",
        decimals=0,
        no_value="Not started",
    ),
    figure(
        "Epoch and step",
        "The epoch and the training step that the run has come to.",
        value(newest(names.EPOCH), "epoch"),
        value(newest(names.STEP), "step"),
        decimals=0,
        no_value="No step recorded",
    ),
    figure(
        "Delivery",
        "Recorded values and where they are: in Prometheus, or kept in the database because "
        "Prometheus cannot hold them. At the end recorded is the sum of both, or values are lost.",
        value(by("place", latest(f"mlbench_run_samples{{{RUN}}}")), "{{place}}"),
        value(by("run_id", f"mlbench_run_waiting_bytes{{{RUN}}}"), "waiting"),
        decimals=0,
        width=5,
        overrides={"waiting": {"unit": "bytes"}},
        no_value="Nothing delivered yet",
    ),
)

_LOSS = over_ranks(names.TRAIN_LOSS)
_ACCURACY = {
    "validation": over_ranks(names.VAL_ACCURACY)["mean"],
    "training": over_ranks(names.TRAIN_ACCURACY)["mean"],
    "goal": while_running(
        by("run_id", f'mlbench_run_goal{{{RUN},metric="{names.VAL_ACCURACY}"}}'), RUN
    ),
}


def _by_step(
    title: str,
    description: str,
    curves: Mapping[str, str],
    *,
    unit: str,
    metrics: str,
    overrides: Overrides,
) -> Panel:
    """Return curves over the step, as soon as one of the metrics has a value."""
    steps = (
        f'max by (run_id) (mlbench_run_metric{{{RUN},metric="{names.STEP}"}})'
        f' and on (run_id) mlbench_run_metric{{{RUN},metric=~"{metrics}"}}'
    )
    return against(
        title,
        description,
        history("step", while_running(steps, RUN), RECORDED_INTERVAL),
        *(history(curve, expr, RECORDED_INTERVAL) for curve, expr in curves.items()),
        x="step",
        unit=unit,
        x_unit="none",
        width=6,
        transformations=over("step", list(curves)),
        overrides=overrides,
    )


LEARNING: Final = (
    lines(
        "Train loss by time",
        "Loss of each training step: the mean of all ranks, and the band between the lowest and "
        "the highest. It should fall; a band that widens says that the ranks drift apart.",
        *(recorded(expr, curve) for curve, expr in _LOSS.items()),
        unit="short",
        width=6,
        least=None,
        overrides=BAND,
        no_value="The run records no train_loss",
    ),
    _by_step(
        "Train loss by step",
        "The same loss over the training step. Where a run was restarted from a checkpoint, a "
        "step shows the value of the later attempt.",
        _LOSS,
        unit="short",
        metrics=names.TRAIN_LOSS,
        overrides=BAND,
    ),
    lines(
        "Accuracy by time",
        "Share of images that are classified correctly: of the whole validation set after each "
        "epoch, and of the training images as they come. Dashed: the goal.",
        *(recorded(expr, curve) for curve, expr in _ACCURACY.items()),
        unit="percent",
        width=6,
        overrides=CURVE_COLOURS,
        no_value="The run records no Prec@1",
    ),
    _by_step(
        "Accuracy by step",
        "The same accuracies over the training step: at each step, the newest that is known.",
        _ACCURACY,
        unit="percent",
        metrics=f"{names.VAL_ACCURACY}|{names.TRAIN_ACCURACY}",
        overrides=CURVE_COLOURS,
    ),
)
