"""PromQL that leaves out discarded steps: those after the checkpoint from which a run resumed."""

from grafana.queries import RECORDED_INTERVAL, PanelQuery, called
from mlbench.contract import names


def _restored(runs: str) -> str:
    """Select the steps from which the ranks of runs resumed; ``runs`` are label matchers."""
    return f'mlbench_run_metric{{{runs},metric="{names.RESTORED_STEP}"}}'


def discarded(runs: str) -> str:
    """Find the ranks whose present step they will discard within a day."""
    step = f'mlbench_run_metric{{{runs},metric="{names.STEP}"}}'
    return f"{step} > on (run_id, rank) min_over_time({_restored(runs)}[1d] offset -1d)"


def from_before(runs: str, metrics: str) -> str:
    """Find the metrics whose newest value precedes the resumption of their run.

    ``runs`` and ``metrics`` are label matchers. Rank 0 represents all ranks, which resume together:
    up to Prometheus 2.42, ``timestamp()`` of a value is a hundred times as slow as the value.
    """
    first = f'{runs},rank=~"0|"'
    since = f"group_left () max by (run_id) (timestamp({_restored(first)}))"
    return f"timestamp(mlbench_run_metric{{{first},{metrics}}}) < on (run_id) {since}"


def kept_in_step(runs: str, metrics: str, function: str = "last") -> str:
    """Return the newest recorded value in each step of a graph, unless it was discarded.

    All ranks count, because a value may lack the label ``rank``.
    """
    values = f"mlbench_run_metric{{{runs},{metrics}}}"
    return (
        f"({function}_over_time({values}[$__interval]) unless on (run_id) ({discarded(runs)})"
        f" unless on (run_id, metric) ({from_before(runs, metrics)}))"
    )


def samples_kept(ref: str, runs: str, metrics: str) -> PanelQuery:
    """Query the newest value in many short steps, so that values of several metrics match."""
    steps = f"{kept_in_step(runs, metrics)}[$__range:$__interval]"
    return PanelQuery(steps, ref=ref, instant=True, table=True, interval=RECORDED_INTERVAL)


def newest_kept(runs: str, metrics: str) -> str:
    """Return the newest recorded value in the time range that was not discarded."""
    values = kept_in_step(runs, metrics)
    return f"({values} or last_over_time({values}[$__range:$__interval]))"


def extreme_kept(runs: str, metrics: str, function: str) -> str:
    """Return the ``max`` or ``min`` of the values in the time range that were not discarded."""
    values = kept_in_step(runs, metrics, function)
    earlier = f"{function}_over_time({values}[$__range:$__interval])"
    return f"{function} by (run_id) ({called('since', 'now', values)} or {earlier})"
