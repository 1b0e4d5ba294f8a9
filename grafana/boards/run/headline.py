"""The run in six figures: state, goal, loss, speed, slowest rank, alerts."""

from functools import partial
from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana import links, thresholds
from grafana.boards.run.queries import (
    DISTURBED,
    RUN,
    TRAIN_LOSS,
    VAL_LOSS,
    now_or_whole,
    of_run,
)
from grafana.boards.run.speed import THROUGHPUT
from grafana.figures import figure
from grafana.panels import BY_THRESHOLD
from grafana.queries import by, called, column, latest, moment, value
from grafana.transformations import one_row
from mlbench import names

_STATE = "(" + by("run_id, state", latest(f"mlbench_run_state{{{RUN}}}")) + " == 1)"
_FAILURE = f"topk by (run_id) (1, {latest(f'mlbench_run_failure_info{{{RUN}}}')})"

_GOAL = by("run_id", latest(f"mlbench_run_goal{{{RUN}}}"))
_VALUES = f'mlbench_run_metric{{{RUN},metric="$goal"}}'
_VALUE = by("run_id", latest(_VALUES))
# Three digits of the goal: 94.4 of 97, 0.512 of 0.5.
_SCALE = f"10 ^ (2 - floor(log10(clamp_min(abs({_GOAL}), 1e-6))))"
_PROGRESS = (
    f'label_join(count_values by (run_id) ("value", round({_VALUE} * {_SCALE}) / {_SCALE})'
    f' * on (run_id) group_left (goal) count_values by (run_id) ("goal", {_GOAL})'
    ', "now", " of ", "value", "goal")'
)
_BEST = (
    f"max by (run_id) (max_over_time({_VALUES}[$__range]))"
    f' unless on (run_id) mlbench_run_goal{{{RUN},better="lower"}}'
    f" or on (run_id) min by (run_id) (min_over_time({_VALUES}[$__range]))"
)
_PACE = f"avg by (run_id) (deriv({_VALUES}[$__range]))"
_LEFT = f"({_GOAL} - {_VALUE}) / ({_PACE}) > 0 < +Inf unless on (run_id) {moment('finished')}"
_REACHED = by("run_id", latest(f"mlbench_run_time_to_goal_seconds{{{RUN}}}"))
_TO_GOAL = f"{_REACHED} or on (run_id) {_LEFT}"

_LOSS = " or ".join(
    called("curve", name, f"avg by (run_id) ({latest(of_run(metrics))})")
    for name, metrics in (("training", TRAIN_LOSS), ("validation", VAL_LOSS))
)

# As the run's result has it, once it has ended.
_SPEED = now_or_whole(
    THROUGHPUT,
    f"sum by (run_id) ({latest(of_run(names.SAMPLES))})"
    f" / avg by (run_id) ({latest(of_run(names.TRAIN_SECONDS))})",
)

_RATIO = f"run_rank:mlbench_worker_straggler:ratio1m{{{RUN}}}"
_SLOWEST = f"topk(1, {now_or_whole(_RATIO, f'avg_over_time({_RATIO}[$__range])')})"

_SHARE = f"{DISTURBED}{{{RUN}}}"
_WAITS = f"topk(1, {now_or_whole(_SHARE, f'avg_over_time({_SHARE}[$__range])')})"

_FIRING = f'ALERTS{{{RUN},alertstate="firing"}}'
_ALERTS = (
    f"max by (alertname) ({_FIRING}) or max by (alertname) ({latest(_FIRING)}) * 0"
    f" or on () {called('alertname', 'None', 'vector(-1)')}"
)

_tile = partial(figure, height=5)
HEADLINE: Final = (
    _tile(
        "State",
        "Where the run is: waiting for workers (INITIALIZED), training (STARTED), or ended; and "
        "why it failed. A click leads to its web page, with its log.",
        column(
            "A",
            f"label_join({_STATE} * on (run_id) group_left (reason) {_FAILURE},"
            f' "state", ": ", "state", "reason") or on (run_id) {_STATE}',
        ),
        size=14,
        filled=True,
        field="/^state$/",
        mappings=(*thresholds.RUN_STATE, thresholds.WHY_FAILED),
        links=(links.WEB_PAGE, links.WHOLE_RUN),
        no_value="Nothing in this range",
    ),
    _tile(
        "Goal",
        "The newest value of the goal's metric, the goal, and the best value so far. To the goal: "
        "the training time that it took; before it is reached an estimate of the time left, at "
        "the pace of the time range that is shown. Learning slows down, so that is at least.",
        column("A", _PROGRESS),
        column("B", _BEST),
        column("C", _TO_GOAL),
        size=20,
        field="/^(now|best|to goal)$/",
        show=BigValueTextMode.VALUE_AND_NAME,
        unit="short",
        transformations=one_row({"now": "now", "Value #B": "best", "Value #C": "to goal"}),
        overrides={
            "to goal": {
                "unit": "dtdurations",
                "decimals": 0,
                "mappings": [thresholds.missing("not reached")],
            }
        },
        no_value="No goal, or no value yet",
    ),
    _tile(
        "Loss",
        "The mean of all ranks. Red where it is no finite number: what the run "
        "does from there on is wasted.",
        value(_LOSS, "{{curve}}"),
        size=20,
        show=BigValueTextMode.VALUE_AND_NAME,
        unit="short",
        mappings=(thresholds.NOT_A_NUMBER,),
        no_value="No loss in this range",
    ),
    _tile(
        "Samples/s",
        "Training samples a second of all ranks together, evaluation left out: now, or once the "
        "run has ended the mean of its whole training. Red is for how much of the time a rank "
        "waited for a core that something else had: such a speed is not the run's own.",
        value(_SPEED, "samples/s"),
        value(_WAITS, "rank {{rank}} waits"),
        size=20,
        decimals=0,
        show=BigValueTextMode.VALUE_AND_NAME,
        overrides={
            "/waits$/": {
                "unit": "percentunit",
                "color": BY_THRESHOLD,
                "thresholds": thresholds.DISTURBED,
            }
        },
        no_value="No samples in this range",
    ),
    _tile(
        "Slowest",
        "The slowest rank: how many times as long it computes for a step as the median of the "
        "others, over the last minute, or the mean of a run that has ended. Only its own work "
        "counts, so one that waits for another is not blamed. Around 1 is good.",
        value(_SLOWEST, "rank {{rank}}"),
        unit="suffix: times",
        decimals=2,
        colours=thresholds.STRAGGLER,
        show=BigValueTextMode.VALUE_AND_NAME,
        no_value="No steps of several ranks",
    ),
    _tile(
        "Alerts",
        "Which alerts fire for this run (red), or have fired in this time range (orange). The "
        "timeline below shows when; docs/runbooks has a file for each, of its name.",
        value(_ALERTS, "{{alertname}}"),
        show=BigValueTextMode.NAME,
        colours=thresholds.FIRED,
    ),
)
