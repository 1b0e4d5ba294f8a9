"""How the run learns: loss and accuracy, by time and by step."""

from collections.abc import Mapping
from typing import Final

from grafana_foundation_sdk.models.dashboard import Panel

from grafana.boards.run.queries import (
    BAND,
    RUN,
    over_ranks,
)
from grafana.graphs import against, lines
from grafana.panels import Overrides, dashed
from grafana.queries import (
    RECORDED_INTERVAL,
    by,
    history,
    recorded,
    while_running,
)
from grafana.transformations import over
from mlbench import names, palette

_LOSS = over_ranks(names.TRAIN_LOSS)
_ACCURACY = {
    "validation": over_ranks(names.VAL_ACCURACY)["mean"],
    "training": over_ranks(names.TRAIN_ACCURACY)["mean"],
    "goal": while_running(
        by("run_id", f'mlbench_run_goal{{{RUN},metric="{names.VAL_ACCURACY}"}}'), RUN
    ),
}
_GOAL_MARK = {"goal": dashed(palette.GREEN)}


def _by_step(
    title: str,
    description: str,
    curves: Mapping[str, str],
    *,
    unit: str,
    metrics: str,
    overrides: Overrides,
) -> Panel:
    """Return curves over the step, from when on one of the metrics is known."""
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
        overrides=_GOAL_MARK,
        no_value="The run records no Prec@1",
    ),
    _by_step(
        "Accuracy by step",
        "The same accuracies over the training step: at each step, the newest that is known.",
        _ACCURACY,
        unit="percent",
        metrics=f"{names.VAL_ACCURACY}|{names.TRAIN_ACCURACY}",
        overrides=_GOAL_MARK,
    ),
)
