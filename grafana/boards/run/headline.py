"""The run at a glance: state, goal and how near it is, time, and whether every value arrived."""

from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana import thresholds
from grafana.boards.run.queries import RUN, newest
from grafana.figures import dial, figure
from grafana.queries import by, column, duration, latest, moment, progress, value
from mlbench import names

_GOAL = by("run_id, metric", latest(f"mlbench_run_goal{{{RUN}}}"))
_GOAL_VALUE = by("run_id, metric", latest(f'mlbench_run_metric{{{RUN},metric="$goal"}}'))
_PROGRESS = progress(_GOAL_VALUE, _GOAL, moment("goal_reached", f"{{{RUN}}}"))

HEADLINE: Final = (
    figure(
        "State",
        "Where the run is: waiting for workers (INITIALIZED), training (STARTED), or ended.",
        column("states", by("run_id, state", latest(f"mlbench_run_state{{{RUN}}}")) + " == 1"),
        unit="none",
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
        unit="none",
        decimals=0,
        no_value="No step recorded",
    ),
    figure(
        "Delivery",
        "Recorded values and where they are: in Prometheus, or kept in the database because "
        "Prometheus cannot hold them. At the end recorded is the sum of both, or values are lost.",
        value(by("place", latest(f"mlbench_run_samples{{{RUN}}}")), "{{place}}"),
        value(by("run_id", f"mlbench_run_waiting_bytes{{{RUN}}}"), "waiting"),
        unit="none",
        decimals=0,
        width=5,
        overrides={"waiting": {"unit": "bytes"}},
        no_value="Nothing delivered yet",
    ),
)
