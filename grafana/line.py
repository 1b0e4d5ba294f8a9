"""PromQL that leaves out what a restarted run recorded after the checkpoint it went on from."""

from grafana.queries import RECORDED_INTERVAL, Query, called
from mlbench.contract import names


def _restored(runs: str) -> str:
    """Select the steps from which the ranks of runs went on; ``runs`` are label matchers."""
    return f'mlbench_run_metric{{{runs},metric="{names.RESTORED_STEP}"}}'


def abandoned(runs: str) -> str:
    """Find the ranks that are past a step from which they go on again, within a day."""
    step = f'mlbench_run_metric{{{runs},metric="{names.STEP}"}}'
    return f"{step} > on (run_id, rank) min_over_time({_restored(runs)}[1d] offset -1d)"


def from_before(runs: str, metrics: str) -> str:
    """Find the metrics whose newest value is from before their run went on from a checkpoint.

    ``metrics`` are label matchers too. The first rank stands for all, which go on together: up to
    Prometheus 2.42, the time of a value costs a hundred times as much as the value.
    """
    first = f'{runs},rank=~"0|"'
    since = f"group_left () max by (run_id) (timestamp({_restored(first)}))"
    return f"timestamp(mlbench_run_metric{{{first},{metrics}}}) < on (run_id) {since}"


def kept_in_step(runs: str, metrics: str, function: str = "last") -> str:
    """Take the newest recorded value in each step of a graph, unless its run has abandoned it.

    All ranks count: a value may have none.
    """
    values = f"mlbench_run_metric{{{runs},{metrics}}}"
    return (
        f"({function}_over_time({values}[$__interval]) unless on (run_id) ({abandoned(runs)})"
        f" unless on (run_id, metric) ({from_before(runs, metrics)}))"
    )


def samples_kept(ref: str, runs: str, metrics: str) -> Query:
    """Ask for the newest value in each of many short steps: those of several metrics fit."""
    steps = f"{kept_in_step(runs, metrics)}[$__range:$__interval]"
    return Query(steps, ref=ref, instant=True, table=True, interval=RECORDED_INTERVAL)


def newest_kept(runs: str, metrics: str) -> str:
    """Take the newest recorded value in the time range that the run has not abandoned."""
    kept = kept_in_step(runs, metrics)
    return f"({kept} or last_over_time({kept}[$__range:$__interval]))"


def extreme_kept(runs: str, metrics: str, function: str) -> str:
    """Take the ``max`` or ``min`` of what runs recorded in the time range and have kept."""
    kept = kept_in_step(runs, metrics, function)
    earlier = f"{function}_over_time({kept}[$__range:$__interval])"
    return f"{function} by (run_id) ({called('since', 'now', kept)} or {earlier})"
