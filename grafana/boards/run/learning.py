"""Learning curves of the run: loss and accuracy, by time and by step."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from grafana_foundation_sdk.models.dashboard import Panel

from grafana.boards.run.queries import (
    IS_TOO_SHORT,
    RUN,
    TOO_SHORT,
    TRAIN_ACCURACY,
    TRAIN_LOSS,
    VAL_ACCURACY,
    VAL_LOSS,
    band_of,
    curves,
    recorded_by_ranks,
    until_end,
)
from grafana.graphs import against, lines
from grafana.panels import CURVE_COLOURS, Overrides, band, fixed
from grafana.queries import RECORDED_INTERVAL, by, called, history, recorded
from grafana.transformations import over
from mlbench.contract import names

_LOSS = {**band_of(TRAIN_LOSS, "training"), "validation": recorded_by_ranks(VAL_LOSS)}
_ACCURACY = {
    "training": recorded_by_ranks(TRAIN_ACCURACY),
    "validation": recorded_by_ranks(VAL_ACCURACY),
    "target": by("run_id", f'mlbench_run_target{{{RUN},metric=~"{VAL_ACCURACY}"}}'),
}
_LOOK: Final[Overrides] = {**CURVE_COLOURS, **band("lowest", "highest")}

_by_time = partial(lines, unit="short", width=12, least=None, overrides=_LOOK)
LEARNING: Final = (
    _by_time(
        "Loss by time",
        "Training loss per step (mean of all ranks, with a band from lowest to highest) and "
        "validation loss. Both should fall. A widening band: ranks drift apart. Rising "
        "validation loss while training loss falls: overfitting.",
        recorded(curves(_LOSS), "{{curve}}"),
        no_value="No loss in this range",
    ),
    _by_time(
        "Accuracy or perplexity by time",
        "Accuracy on the training data, and on the validation set after each epoch: higher is "
        "better. Language models: perplexity, lower is better. Dashed: the target.",
        recorded(curves(_ACCURACY), "{{curve}}"),
        no_value="No accuracy or perplexity in this range",
    ),
)


def _by_step(title: str, description: str, by_name: Mapping[str, str], metrics: str) -> Panel:
    """Return curves over the step, once one of the metrics has a value."""
    steps = (
        f'max by (run_id) (mlbench_run_metric{{{RUN},metric="{names.STEP}"}})'
        f' and on (run_id) mlbench_run_metric{{{RUN},metric=~"{metrics}"}}'
    )
    # A trend has no text for missing data, so its legend says it.
    too_short = f"({IS_TOO_SHORT}) * 0"
    values = " or ".join(called("curve", name, expr) for name, expr in by_name.items())
    drawn = f"{until_end(values)} or {called('curve', TOO_SHORT, too_short)}"
    return against(
        title,
        description,
        history("value", drawn, RECORDED_INTERVAL),
        history("step", f"{until_end(steps)} or {too_short}", RECORDED_INTERVAL),
        x="step",
        unit="short",
        x_unit="none",
        width=12,
        transformations=over("step", "value", "curve"),
        overrides={**_LOOK, TOO_SHORT: fixed("transparent") | {"custom.axisSoftMax": 1}},
    )


BY_STEP: Final = (
    _by_step(
        "Loss by step",
        "Training and validation loss over the training step. After a restart from a checkpoint, "
        "repeated steps show the later attempt.",
        _LOSS,
        f"{TRAIN_LOSS}|{VAL_LOSS}",
    ),
    _by_step(
        "Accuracy or perplexity by step",
        "Accuracy or perplexity over the training step: the newest value at each step.",
        _ACCURACY,
        f"{TRAIN_ACCURACY}|{VAL_ACCURACY}",
    ),
    lines(
        "Learning rate",
        "Learning rate of each step.",
        recorded(curves({"learning rate": recorded_by_ranks(names.LEARNING_RATE)}), "{{curve}}"),
        unit="sci",
        width=12,
        no_value="No learning_rate in this range",
    ),
)
