"""PromQL for the panels of a run: its series by run, rank and pod."""

from collections.abc import Mapping
from typing import Final

from grafana.line import discarded, from_before
from grafana.panels import RANK_COLOURS, Overrides, band, fixed
from grafana.queries import PanelQuery, by, called, ever, graph, moment, newest_in_step, of_result
from mlbench.contract import names, palette

RUN: Final = 'run_id="$run_id"'
RANKS: Final = f'{RUN},rank=~"$rank"'

# Metrics, by their names in the official benchmarks and most other code.
TRAIN_LOSS: Final = "|".join(names.TRAIN_LOSSES)
VAL_LOSS: Final = "|".join(names.VAL_LOSSES)
TRAIN_ACCURACY: Final = "train_(Prec@1|R2|acc|accuracy|Perplexity)|accuracy"
VAL_ACCURACY: Final = "val_(global_)?(Prec@1|R2|acc|accuracy|Perplexity)"

PHASES: Final = "|".join(names.phase_metric(phase) for phase in names.PHASES)
# Phases in which a rank works. In the other ones it waits, or does not train.
WORK: Final = "|".join(
    names.phase_metric(phase)
    for phase in names.PHASES
    if phase not in ("communication", *names.UNTRAINED)
)

DISTURBED: Final = "run_rank:mlbench_worker_cpu_contention:ratio1m"
RATIO: Final = "run_rank:mlbench_worker_straggler:ratio1m"
FIRING: Final = f'ALERTS{{{RUN},alertstate="firing"}}'

# With more ranks than this, only the worst ones have a name, beside a band of all ranks.
_NAMED: Final = 5
OF_RANKS: Final[Overrides] = {
    **RANK_COLOURS,
    **band("lowest", "highest"),
    "median": fixed(palette.GREY),
}


def named_alerts(expr: str) -> str:
    """Add the label "alert": the name of the alert without the common prefix."""
    return f'label_replace({expr}, "alert", "$1", "alertname", "MLBench(.*)")'


def of_run(metrics: str) -> str:
    """Select the metrics of the run that match a pattern."""
    return f'mlbench_run_metric{{{RUN},metric=~"{metrics}"}}'


def result_or(now: str, figure: str, labels: str = "run_id", selector: str = RUN) -> str:
    """Return a figure of the run's result after its end, and an expression before."""
    ended = moment("finished", f"{{{RUN}}}")
    return result_or_value(f"({now}) unless on (run_id) {ended}", figure, labels, selector)


def result_or_value(value: str, figure: str, labels: str = "run_id", selector: str = RUN) -> str:
    """Return a figure of the run's result, or the recorded value while there is no result."""
    return f"{by(labels, of_result(f'{figure}{{{selector}}}'))} or on (run_id) ({value})"


_STARTED, _FINISHED = (f"{name}{{{RUN}}}" for name in (names.RUN_STARTED, names.RUN_FINISHED))
# A short run may be between two points of a graph, unless the time range fits the run.
IS_TOO_SHORT: Final = (
    f"({by('run_id', ever(_FINISHED))} - on (run_id) {by('run_id', ever(_STARTED))}"
    " < 2 * $__interval_ms / 1000 < $__range_s / 4)"
    f" or on (run_id) ({by('run_id', ever(_STARTED))}"
    f" unless on (run_id) ({ever(_FINISHED)} or {ever(_STARTED, '$__interval')}))"
)
TOO_SHORT: Final = "Too short for this range: open “Whole run”"


def until_end(expr: str) -> str:
    """End an expression with the run, instead of minutes later when the value is stale.

    One more step of the graph is included, so that each run of a few steps has points.
    """
    ended = f"max by (run_id) ({_FINISHED}) < time() - $__interval_ms / 1000"
    return f"({expr}) unless on (run_id) ({ended}) unless on (run_id) ({IS_TOO_SHORT})"


def while_running(expr: str, label: str) -> str:
    """Return series up to the end of the run; if it is too short, a ``label`` says so."""
    return f"{until_end(expr)} or {called(label, TOO_SHORT, f'({IS_TOO_SHORT}) * NaN')}"


def recorded_by_ranks(metrics: str, aggregate: str = "avg") -> str:
    """Return an aggregate of a metric over the chosen ranks, without discarded steps.

    A value lasts until the next one, for 5 minutes, or until the run resumes from a checkpoint. If
    steps of the graph are longer, it lasts for a step.
    """
    values = f'mlbench_run_metric{{{RANKS},metric=~"{metrics}"}}'
    newest = f"{aggregate} by (run_id) ({values})"
    in_step = f"{aggregate} by (run_id) (last_over_time({values}[$__interval]))"
    before = from_before(RUN, f'metric=~"{metrics}"')
    current = f"({newest} unless on (run_id) ({before}) or {in_step})"
    return f"({current} unless on (run_id) ({discarded(RANKS)}))"


def band_of(metrics: str, mean: str) -> dict[str, str]:
    """Return the mean of a metric by the name ``mean``, and the lowest and highest rank."""
    return {
        mean: recorded_by_ranks(metrics),
        "lowest": recorded_by_ranks(metrics, "min"),
        "highest": recorded_by_ranks(metrics, "max"),
    }


def curves(by_name: Mapping[str, str]) -> str:
    """Return curves up to the end of the run, with their names as the label ``curve``."""
    named = (called("curve", name, expr) for name, expr in by_name.items())
    return while_running(" or ".join(named), "curve")


def of_ranks(expr: str, worst: str = "topk") -> PanelQuery:
    """Query a value of each rank; of many ranks, the extremes, the median and the worst ones.

    ``expr`` has the labels ``run_id`` and ``rank``, and the range ``[$__rate_interval]``. The worst
    ranks are chosen over the whole time range, so that they are the same at each point.
    """
    overall = expr.replace("[$__rate_interval]", "[$__range] @ end() offset -$__interval")
    named = f"({expr}) and on (run_id, rank) {worst}({_NAMED}, {overall})"
    edges = " or ".join(
        called("rank", name, f"quantile by (run_id) ({quantile}, {expr})")
        for name, quantile in (("lowest", 0), ("median", 0.5), ("highest", 1))
    )
    drawn = (
        f'label_replace({named}, "rank", "rank $1", "rank", "(.*)")'
        f" or ({edges}) and on (run_id) mlbench_run_world_size{{{RUN}}} > {_NAMED}"
    )
    return graph(while_running(drawn, "rank"), "{{rank}}")


def of_rule(rule: str, worst: str = "topk") -> PanelQuery:
    """Query the result of a recording rule for each rank."""
    return of_ranks(f"avg_over_time({rule}{{{RANKS}}}[$__rate_interval])", worst)


def of_pods(expr: str) -> str:
    """Return the sum of a value over each pod's devices, with the run and rank of the pod."""
    ranks = by("pod, run_id, rank", newest_in_step(f"mlbench_worker_info{{{RANKS}}}"))
    return f"sum by (pod) ({expr}) * on (pod) group_right () {ranks}"
