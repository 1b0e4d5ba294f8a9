"""Queries that find nothing where what they ask for is lacking.

Where it is there, for instance on a machine with a GPU, they must find data; and where it is
lacking, they must not: an exclusion that is not needed fails.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class MayBeEmpty:
    """Why some queries may find nothing."""

    reason: str
    lacking: str
    """What is not there: PromQL, with the dashboard's variables."""
    places: tuple[str, ...]
    """``UID / PANEL``, with `` / REF`` where it is one query of several."""


MAY_BE_EMPTY: tuple[MayBeEmpty, ...] = (
    MayBeEmpty(
        "There is no GPU.",
        "mlbench_gpu_utilization_ratio",
        (
            "mlbench-run / GPU use by worker",
            "mlbench-run / GPU memory by worker",
            "mlbench-run / GPU power by worker",
            "mlbench-workers / Worker pods / gpu",
            "mlbench-workers / GPU use",
            "mlbench-workers / GPU memory",
            "mlbench-workers / GPU power",
        ),
    ),
    MayBeEmpty(
        "Workers on one machine share its network.",
        "container_network_receive_bytes_total",
        (
            "mlbench-run / Network by worker",
            "mlbench-workers / Network",
            "mlbench-workers / Worker pods / received",
            "mlbench-workers / Worker pods / sent",
            "mlbench-workers / Network of all workers",
            "mlbench-workers / Network in by worker",
            "mlbench-workers / Network out by worker",
        ),
    ),
    MayBeEmpty(
        "All is well with the run.",
        'ALERTS{run_id="$run_id",alertstate="firing"}',
        ("mlbench-run / Alerts over time",),
    ),
    MayBeEmpty(
        "All is well.",
        'ALERTS{alertname=~"MLBench.*",alertstate="firing"}',
        ("mlbench-stack / Alerts that fire now",),
    ),
    MayBeEmpty(
        "The run has not reached its goal yet.",
        'mlbench_run_goal_reached_timestamp_seconds{run_id="$run_id"}',
        ("mlbench-run / annotation Goal reached", "mlbench-run / Time to goal"),
    ),
    MayBeEmpty(
        "None of the runs has reached its goal yet.",
        'mlbench_run_goal_reached_timestamp_seconds{run_id=~"$runs"}',
        (
            "mlbench-compare / annotation Goal reached",
            "mlbench-compare / Time to goal",
            "mlbench-compare / Runs compared / time_to_goal",
            "mlbench-compare / Runs compared / since_start",
            "mlbench-compare / Runs compared / sooner",
        ),
    ),
    MayBeEmpty(
        "The run goes on.",
        'mlbench_run_finished_timestamp_seconds{run_id="$run_id"}',
        ("mlbench-run / annotation Run ended",),
    ),
    MayBeEmpty(
        "All of the runs go on.",
        'mlbench_run_finished_timestamp_seconds{run_id=~"$runs"}',
        ("mlbench-compare / annotation Run ended",),
    ),
    MayBeEmpty(
        "The run has ended.",
        'mlbench_run_state{run_id="$run_id",state="STARTED"} == 1',
        ("mlbench-run / Last progress",),
    ),
    MayBeEmpty(
        "Nothing waits of a run that has ended.",
        'mlbench_run_waiting_bytes{run_id="$run_id"}',
        ("mlbench-run / Delivery / B",),
    ),
    MayBeEmpty(
        "No run is active at the end of the time range.",
        'mlbench_run_state{state="STARTED"} == 1',
        (
            "mlbench-runs / Active run",
            "mlbench-runs / Elapsed",
            "mlbench-runs / Epoch",
            "mlbench-runs / Last progress",
            "mlbench-runs / Progress to goal",
            "mlbench-runs / Throughput",
        ),
    ),
    MayBeEmpty(
        "No run waits at the end of the time range.",
        'mlbench_run_state{state="INITIALIZED"} == 1',
        ("mlbench-runs / Queue in order",),
    ),
    MayBeEmpty(
        "The controller is told of no Grafana.",
        "mlbench_grafana_requests_total",
        ("mlbench-stack / Requests to Grafana",),
    ),
)
