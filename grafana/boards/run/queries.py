"""PromQL for the panels of a run: its series by run, rank and pod."""

from collections.abc import Mapping
from typing import Final

from grafana.line import abandoned, from_before
from grafana.panels import RANK_COLOURS, Overrides, band, fixed
from grafana.queries import Query, by, called, ever, graph, moment, newest_in_step, of_result
from mlbench.contract import names, palette

RUN: Final = 'run_id="$run_id"'
RANKS: Final = f'{RUN},rank=~"$rank"'

# Metrics by the names that the tasks and most other code give them.
TRAIN_LOSS: Final = "|".join(names.TRAIN_LOSSES)
VAL_LOSS: Final = "|".join(names.VAL_LOSSES)
TRAIN_ACCURACY: Final = "train_(Prec@1|R2|acc|accuracy|Perplexity)|accuracy"
VAL_ACCURACY: Final = "val_(global_)?(Prec@1|R2|acc|accuracy|Perplexity)"

PHASES: Final = "|".join(names.phase_metric(phase) for phase in names.PHASES)
# What a rank does itself: in the others it waits, or does not train.
WORK: Final = "|".join(
    names.phase_metric(phase)
    for phase in names.PHASES
    if phase not in ("communication", *names.UNTRAINED)
)

DISTURBED: Final = "run_rank:mlbench_worker_disturbed:share1m"
RATIO: Final = "run_rank:mlbench_worker_straggler:ratio1m"
FIRING: Final = f'ALERTS{{{RUN},alertstate="firing"}}'

# Of more ranks than this, the worst few are drawn by name, beside a band of all.
_NAMED: Final = 5
OF_RANKS: Final[Overrides] = {
    **RANK_COLOURS,
    **band("lowest", "highest"),
    "median": fixed(palette.GREY),
}


def named_alerts(expr: str) -> str:
    """Give alerts a label "alert": their name without the word that all have in common."""
    return f'label_replace({expr}, "alert", "$1", "alertname", "MLBench(.*)")'


def of_run(metrics: str) -> str:
    """Select what the run records under any of some names."""
    return f'mlbench_run_metric{{{RUN},metric=~"{metrics}"}}'


def result_or(now: str, figure: str, labels: str = "run_id", selector: str = RUN) -> str:
    """Take a figure of the run's result once it has ended, and an expression before."""
    ended = moment("finished", f"{{{RUN}}}")
    return result_or_value(f"({now}) unless on (run_id) {ended}", figure, labels, selector)


def result_or_value(value: str, figure: str, labels: str = "run_id", selector: str = RUN) -> str:
    """Take a figure of the run's result, or what was recorded where there is none (yet)."""
    return f"{by(labels, of_result(f'{figure}{{{selector}}}'))} or on (run_id) ({value})"


_STARTED, _FINISHED = (f"{name}{{{RUN}}}" for name in (names.RUN_STARTED, names.RUN_FINISHED))
# Such a run may lie between two points of a graph. In a range of its own it is as it is.
IS_TOO_SHORT: Final = (
    f"({by('run_id', ever(_FINISHED))} - on (run_id) {by('run_id', ever(_STARTED))}"
    " < 2 * $__interval_ms / 1000 < $__range_s / 4)"
    f" or on (run_id) ({by('run_id', ever(_STARTED))}"
    f" unless on (run_id) ({ever(_FINISHED)} or {ever(_STARTED, '$__interval')}))"
)
TOO_SHORT: Final = "Too short for this range: open “Whole run”"


def until_end(expr: str) -> str:
    """End an expression with the run, not minutes later when the value is stale.

    It lasts for a step of the graph longer, so that each run of some steps has points.
    """
    ended = f"max by (run_id) ({_FINISHED}) < time() - $__interval_ms / 1000"
    return f"({expr}) unless on (run_id) ({ended}) unless on (run_id) ({IS_TOO_SHORT})"


def while_running(expr: str, label: str) -> str:
    """Draw series up to the end of the run; where it is too short, a ``label`` says that."""
    return f"{until_end(expr)} or {called(label, TOO_SHORT, f'({IS_TOO_SHORT}) * NaN')}"


def recorded_by_ranks(metrics: str, aggregate: str = "avg") -> str:
    """Take one value of all chosen ranks, by default the mean, of a metric, but what was abandoned.

    Each holds until the next, for 5 minutes, or until the run goes on from a checkpoint; with
    steps longer than that, for a step of the graph.
    """
    values = f'mlbench_run_metric{{{RANKS},metric=~"{metrics}"}}'
    newest = f"{aggregate} by (run_id) ({values})"
    in_step = f"{aggregate} by (run_id) (last_over_time({values}[$__interval]))"
    before = from_before(RUN, f'metric=~"{metrics}"')
    current = f"({newest} unless on (run_id) ({before}) or {in_step})"
    return f"({current} unless on (run_id) ({abandoned(RANKS)}))"


def band_of(metrics: str, mean: str) -> dict[str, str]:
    """Take the mean of a metric by this name, and the values of the ranks that are furthest off."""
    return {
        mean: recorded_by_ranks(metrics),
        "lowest": recorded_by_ranks(metrics, "min"),
        "highest": recorded_by_ranks(metrics, "max"),
    }


def curves(by_name: Mapping[str, str]) -> str:
    """Draw curves up to the end of the run, each with its name as the label ``curve``."""
    named = (called("curve", name, expr) for name, expr in by_name.items())
    return while_running(" or ".join(named), "curve")


def of_ranks(expr: str, worst: str = "topk") -> Query:
    """Draw a value of each rank; of many, the lowest, median and highest, and the worst few.

    ``expr`` has the labels ``run_id`` and ``rank`` and looks back over ``[$__rate_interval]``. The
    worst are so over the whole time range: the same at each point.
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


def of_rule(rule: str, worst: str = "topk") -> Query:
    """Draw what a recording rule computes of each rank."""
    return of_ranks(f"avg_over_time({rule}{{{RANKS}}}[$__rate_interval])", worst)


def of_pods(expr: str) -> str:
    """Take a value of each pod, over its devices, with the run and rank that it works for."""
    ranks = by("pod, run_id, rank", newest_in_step(f"mlbench_worker_info{{{RANKS}}}"))
    return f"sum by (pod) ({expr}) * on (pod) group_right () {ranks}"
