"""Where a dashboard rightly breaks a rule, or shows nothing; an exclusion that is not needed fails.

These rules of Grafana's dashboard-linter are kept by no dashboard, and so have no function:

- template-job, template-instance, target-job, target-instance: recorded series are remote written
  and have neither label, and a worker's instance says nothing that its pod does not. Users choose
  runs, ranks and pods instead.
- target-logql, target-logql-auto: all data sources are Prometheus (``panel-datasource``).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Exclusion:
    """A place where a rule need not hold."""

    dashboard: str
    panel: str
    """The panel's title, or another place as the fault names it."""
    rule: str
    reason: str


@dataclass(frozen=True)
class Place:
    """Where a dashboard asks: for a variable, an annotation or a panel."""

    dashboard: str
    title: str
    """A panel's title, ``variable NAME`` or ``annotation NAME``."""
    ref_ids: tuple[str, ...] = ()
    """Those of the panel's queries; all of them if empty."""


@dataclass(frozen=True)
class MayBeEmpty:
    """Queries that find nothing where what they ask for is lacking.

    Where it is not lacking, for instance on a machine with a GPU, the queries must find data; and
    where it is, they must not.
    """

    lacking: str
    """What is not there: PromQL, with the dashboard's variables."""
    reason: str
    places: tuple[Place, ...]


EXCLUSIONS: tuple[Exclusion, ...] = ()

MAY_BE_EMPTY: tuple[MayBeEmpty, ...] = (
    MayBeEmpty(
        lacking="mlbench_gpu_utilization_ratio",
        reason="There is no GPU.",
        places=(
            Place("mlbench-run", "GPU use by worker"),
            Place("mlbench-run", "GPU memory by worker"),
            Place("mlbench-run", "GPU power by worker"),
            Place("mlbench-workers", "Worker pods", ("gpu",)),
            Place("mlbench-workers", "GPU use"),
            Place("mlbench-workers", "GPU memory"),
            Place("mlbench-workers", "GPU power"),
        ),
    ),
    MayBeEmpty(
        lacking="container_network_receive_bytes_total",
        reason="Workers on one machine share its network.",
        places=(
            Place("mlbench-run", "Network by worker"),
            Place("mlbench-workers", "Network"),
            Place("mlbench-workers", "Worker pods", ("received", "sent")),
            Place("mlbench-workers", "Network of all workers"),
            Place("mlbench-workers", "Network in by worker"),
            Place("mlbench-workers", "Network out by worker"),
        ),
    ),
    MayBeEmpty(
        lacking='ALERTS{run_id="$run_id",alertstate="firing"}',
        reason="All is well with the run.",
        places=(Place("mlbench-run", "Alerts over time"),),
    ),
    MayBeEmpty(
        lacking='ALERTS{alertname=~"MLBench.*",alertstate="firing"}',
        reason="All is well.",
        places=(Place("mlbench-stack", "Alerts that fire now"),),
    ),
    MayBeEmpty(
        lacking='mlbench_run_goal_reached_timestamp_seconds{run_id="$run_id"}',
        reason="The run has not reached its goal yet.",
        places=(
            Place("mlbench-run", "annotation Goal reached"),
            Place("mlbench-run", "Time to goal"),
        ),
    ),
    MayBeEmpty(
        lacking='mlbench_run_goal_reached_timestamp_seconds{run_id=~"$runs"}',
        reason="None of the runs has reached its goal yet.",
        places=(
            Place("mlbench-compare", "annotation Goal reached"),
            Place("mlbench-compare", "Time to goal"),
            Place("mlbench-compare", "Runs compared", ("time_to_goal", "since_start", "sooner")),
        ),
    ),
    MayBeEmpty(
        lacking='mlbench_run_finished_timestamp_seconds{run_id="$run_id"}',
        reason="The run goes on.",
        places=(Place("mlbench-run", "annotation Run ended"),),
    ),
    MayBeEmpty(
        lacking='mlbench_run_finished_timestamp_seconds{run_id=~"$runs"}',
        reason="All of the runs go on.",
        places=(Place("mlbench-compare", "annotation Run ended"),),
    ),
    MayBeEmpty(
        lacking='mlbench_run_state{run_id="$run_id",state="STARTED"} == 1',
        reason="The run has ended.",
        places=(Place("mlbench-run", "Last progress"),),
    ),
    MayBeEmpty(
        lacking='mlbench_run_waiting_bytes{run_id="$run_id"}',
        reason="Nothing waits of a run that has ended.",
        places=(Place("mlbench-run", "Delivery", ("B",)),),
    ),
    MayBeEmpty(
        lacking='mlbench_run_state{state="STARTED"} == 1',
        reason="No run is active at the end of the time range.",
        places=(
            Place("mlbench-runs", "Active run"),
            Place("mlbench-runs", "Elapsed"),
            Place("mlbench-runs", "Epoch"),
            Place("mlbench-runs", "Last progress"),
            Place("mlbench-runs", "Progress to goal"),
            Place("mlbench-runs", "Throughput"),
        ),
    ),
    MayBeEmpty(
        lacking='mlbench_run_state{state="INITIALIZED"} == 1',
        reason="No run waits at the end of the time range.",
        places=(Place("mlbench-runs", "Queue in order"),),
    ),
    MayBeEmpty(
        lacking="mlbench_grafana_requests_total",
        reason="The controller writes to a Grafana only where it is told of one.",
        places=(Place("mlbench-stack", "Requests to Grafana"),),
    ),
)
