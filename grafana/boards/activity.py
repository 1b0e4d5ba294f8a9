"""Activity on the page of workers: a strip for each worker, or for each node if there are many."""

from typing import Final

from grafana import thresholds
from grafana.graphs import timeline
from grafana.queries import by, called, history
from grafana.transformations import states

_PODS: Final = 'pod=~"$pod"'
# With more workers than this, each node has a strip.
_MAX_STRIPS: Final = 20

# Includes deleted pods, and times without a scrape of the master, which reports the nodes.
_EVER_PRESENT: Final = (
    f'last_over_time(mlbench_pod_info{{{_PODS},node=~"$node"}}[$__range] @ end())'
)
_NODE_OF_POD: Final = f"topk by (pod) (1, {by('pod, node', _EVER_PRESENT)})"
_ARE_MANY: Final = f"on () (count({_NODE_OF_POD}) > {_MAX_STRIPS})"

_INFO: Final = f"mlbench_worker_info{{{_PODS}}}"
# Run and rank of each worker. If a scrape failed, those of half a minute ago.
WORK: Final = f"({_INFO} or on (pod) topk by (pod) (1, last_over_time({_INFO}[30s])))"
_PRESENT: Final = f"{by('pod, run_id, rank', WORK)} and on (pod) {_NODE_OF_POD}"
_RUNNING: Final = f"{_PRESENT} and on (run_id) last_over_time(mlbench_run_info[1m])"
_IDLE: Final = called("work", "idle", _PRESENT)


def _of_rank(expr: str) -> str:
    """Add the label "work" with run and rank, if there are any."""
    both = f'label_join({expr}, "both", ";", "run_id", "rank")'
    return f'label_replace({both}, "work", "run $1 rank $2", "both", "(.+);(.+)")'


# A straggler comes before a critical alert. All other alerts are in the table.
_LATE: Final = f'ALERTS{{{_PODS},alertname="MLBenchStraggler",alertstate="firing"}}'
_CRITICAL: Final = f'ALERTS{{{_PODS},severity="critical",alertstate="firing"}}'
_MARKS: Final = (
    f'label_replace({_LATE} + 1 or {_CRITICAL}, "alert", "$1", "alertname", "MLBench(.*)")'
)
_MARKED: Final = (
    f"label_join({_of_rank(_PRESENT)} * on (pod) group_left (alert) topk by (pod) (1,"
    f' {by("pod, alert", _MARKS)}), "work", ": ", "alert", "work")'
)
_OF_WORKERS: Final = f"({_MARKED} or on (pod) {_of_rank(_IDLE)})"
_RUN: Final = f'label_replace({_RUNNING}, "work", "run $1", "run_id", "(.*)")'
_OF_NODES: Final = (
    f"topk by (node) (1, ({_MARKED} * 0 + 3 or on (pod) {_RUN} * 0 + 2 or on (pod) {_IDLE})"
    f" * on (pod) group_left (node) {_NODE_OF_POD})"
)


def short_names(expr: str, row: str) -> str:
    """Add the label ``row``: the pod's name without the prefix that all pods of MLBench share."""
    return f'label_replace({expr}, "{row}", "$1", "pod", "(?:local-)?(?:mlbench-)?(.*)")'


def _worst_first(expr: str, label: str) -> str:
    """Add a label "above", by which Prometheus sorts: stragglers in the time range come first."""

    def alerted(alerts: str) -> str:
        pods = by("pod", f"last_over_time({alerts}[$__range] @ end())")
        return by(label, f"{pods} * on (pod) group_left (node) {_NODE_OF_POD}")

    order = f" or on ({label}) ".join(
        called("above", str(place), pods)
        for place, pods in enumerate(
            (alerted(_LATE), alerted(_CRITICAL), by(label, f"{_NODE_OF_POD}"))
        )
    )
    return f"{expr} * on ({label}) group_left (above) ({order})"


_WORKER_STRIPS: Final = short_names(_worst_first(_OF_WORKERS, "pod"), "row")
_NODE_STRIPS: Final = (
    f'label_replace({_worst_first(_OF_NODES, "node")}, "row", "$1", "node", "(.*)")'
)


ACTIVITY: Final = timeline(
    "Worker activity",
    "Run and rank of each worker over time. With more than 20 workers: runs of each node. Blue: "
    "running. Grey: idle. Orange: a straggler. Red: a critical alert. Gaps: no worker, or no "
    "scrape for more than 30 s.",
    history(
        "work",
        f"{by('above, row, work', _WORKER_STRIPS)} unless {_ARE_MANY}"
        f" or {by('above, row, work', _NODE_STRIPS)} and {_ARE_MANY}",
    ),
    mappings=thresholds.ACTIVITY,
    transformations=states("row", "work"),
    height=11,
    no_value="No scraped worker",
)
