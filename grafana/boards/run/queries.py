"""PromQL for the panels of a run: its series by run, rank and pod."""

from typing import Final

from grafana.panels import band
from grafana.queries import by, latest, while_running
from mlbench import names

RUN: Final = 'run_id="$run_id"'
RANKS: Final = f'{RUN},rank=~"$rank"'

PHASES: Final = "|".join(names.phase_metric(phase) for phase in names.PHASES)
BAND: Final = band("lowest", "highest")


def newest(metric: str) -> str:
    """Take the newest value of a recorded metric, the largest of all ranks."""
    return by("run_id", latest(f'mlbench_run_metric{{{RUN},metric="{metric}"}}'))


def over_ranks(metric: str) -> dict[str, str]:
    """Take the mean, lowest and highest value of a recorded metric over all ranks."""
    selector = f'mlbench_run_metric{{{RANKS},metric=~"{metric}"}}'
    return {
        curve: while_running(f"{aggregate} by (run_id) ({selector})", RUN)
        for curve, aggregate in (("mean", "avg"), ("lowest", "min"), ("highest", "max"))
    }


def of_its_pods(expr: str) -> str:
    """Take a value for each pod while it works for the run, with its rank as a label."""
    ranks = by("pod, rank", f"mlbench_worker_info{{{RANKS}}}")
    return f"sum by (pod) ({expr}) * on (pod) group_left (rank) {ranks}"


def by_rank(expr: str) -> str:
    """Take a value for each rank, with its pod as a label."""
    pods = f"run_rank_pod:mlbench_worker_info:last30s{{{RANKS}}}"
    return f"{expr} * on (run_id, rank) group_left (pod) {pods}"
