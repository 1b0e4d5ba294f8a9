"""Speed of the run, its time breakdown, and its slowest rank."""

from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana import thresholds
from grafana.boards.run.queries import (
    OF_RANKS,
    PHASES,
    RANKS,
    RATIO,
    RUN,
    WORK,
    curves,
    of_rule,
    of_run,
    result_or,
    result_or_value,
    until_end,
    while_running,
)
from grafana.graphs import figure, heat_map, lines, stacked_bars
from grafana.line import newest_kept
from grafana.panels import PHASE_COLOURS, fixed
from grafana.queries import (
    DURATION,
    by,
    called,
    column,
    duration,
    graph,
    latest,
    newest_in_step,
    rate,
    value,
)
from grafana.transformations import matrix, organized, sorted_by
from mlbench.contract import names, palette

# Mean of the scraped ranks times the number of ranks: a missed scrape is not a slow run. Until the
# rule has counted the ranks, their sum. If a run starts or ends within a step, the rates of samples
# and of training time are equally low.
_SAMPLES: Final = f"sum by (run_id, rank) ({rate(f'mlbench_worker_samples_total{{{RUN}}}')})"
_RANKS: Final = newest_in_step(f"run:mlbench_worker_samples:ranks5m{{{RUN}}}")
THROUGHPUT: Final = (
    f"(avg by (run_id) ({_SAMPLES}) * on (run_id) {_RANKS} or sum by (run_id) ({_SAMPLES}) > 0)"
    f" / on (run_id) avg by (run_id) ({rate(f'mlbench_worker_step_seconds_sum{{{RUN}}}')})"
)
_WORLD_SIZE: Final = by("run_id", newest_in_step(f"{names.RUN_WORLD_SIZE}{{{RUN}}}"))
_SCRAPED: Final = f"count by (run_id) (count by (run_id, rank) (mlbench_worker_running{{{RUN}}}))"
_MISSED: Final = (
    f'label_replace(count_values by (run_id) ("ranks", {_WORLD_SIZE}),'
    ' "curve", "ranks not scraped, of $1", "ranks", "(.+)")'
    f" * on (run_id) group_left () ({_WORLD_SIZE} - on (run_id) {_SCRAPED} > 0)"
)

_PHASE_SHARES = f"run_phase:mlbench_worker_phase_seconds:share1m{{{RUN}}}"
_COMMUNICATION = f"run:mlbench_worker_communication:share1m{{{RUN}}}"
_PHASES = by("rank, metric", latest(f'mlbench_run_metric{{{RANKS},metric=~"{PHASES}"}}'))
_TRAINED = by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="{names.TRAIN_SECONDS}"}}'))
_COMMUNICATED = by("rank", latest(f'mlbench_run_metric{{{RANKS},metric="communication_seconds"}}'))
_OWN_WORK = f"({_TRAINED} - on (rank) {_COMMUNICATED} or {_TRAINED})"
_IN_TRAINING = f"sum by (rank) ({latest(of_run(f'{WORK}|communication_seconds'))})"
# Training time outside of all phases, as in the result.
_OTHER = called("metric", "other_seconds", f"clamp_min({_TRAINED} - on (rank) {_IN_TRAINING}, 0)")
_SECONDS = f"({_PHASES} or {_OTHER})"
_SHARES = (
    "label_replace(label_replace("
    f"{_SECONDS} / on (rank) group_left () sum by (rank) {_SECONDS}"
    f" and on (rank) (topk(5, {_OWN_WORK}) or bottomk(5, {_OWN_WORK}))"
    ', "phase", "$1", "metric", "(.*)_seconds"), "rank", "rank $1", "rank", "(.*)")'
)
_RECORDED = f'mlbench_run_samples{{{RUN},place="recorded"}}'
_COUNTED = f'mlbench_run_samples{{{RUN},place!="recorded"}}'
_OF_RUN = "sum by (run_id) ({})"
# The samples of an active run are not counted yet: none is missing.
_MISSING = (
    f"{_OF_RUN.format(latest(_RECORDED))} - "
    f"({_OF_RUN.format(latest(_COUNTED))} or {_OF_RUN.format(latest(_RECORDED))})"
)

_EPOCH = by("run_id", newest_kept(RUN, f'metric="{names.EPOCH}"'))
_SHARE: dict[str, object] = {"unit": "percentunit", "decimals": 1}
_NOT_SCRAPED: dict[str, object] = fixed(palette.GREY) | {
    "unit": "none",
    "custom.axisPlacement": "right",
    "custom.axisSoftMin": 0,
    "custom.lineWidth": 0,
    "custom.fillOpacity": 30,
    "custom.showPoints": "never",
}
SPEED: Final = (
    lines(
        "Throughput",
        "Training samples per second of all ranks, evaluation excluded. Should be flat. Gaps are "
        "periods without steps. Grey: ranks that Prometheus has not scraped, on the right axis; "
        "the others stand for them.",
        graph(curves({"samples/s": THROUGHPUT}), "{{curve}}"),
        graph(until_end(_MISSED), "{{curve}}"),
        unit="short",
        overrides={"samples/s": fixed(palette.SERIES[0]), "/^ranks not scraped/": _NOT_SCRAPED},
        no_value="No samples counted in this range",
    ),
    lines(
        "Time breakdown",
        "Share of each phase in the last minute, over all ranks. Communication includes "
        "waiting for other ranks. Other: training time outside of all phases.",
        graph(while_running(f"{newest_in_step(_PHASE_SHARES)} > 0", "phase"), "{{phase}}"),
        unit="percentunit",
        maximum=1,
        stacked=True,
        overrides=PHASE_COLOURS,
        no_value="No scrape in this range",
    ),
    stacked_bars(
        "Time breakdown by rank",
        "Share of each phase in a rank's time so far, evaluation included. Sorted by least "
        "waiting: the others wait for the first rank. With many ranks: the five that work most "
        "and least.",
        column("phases", _SHARES),
        x="rank",
        unit="percentunit",
        maximum=1,
        width=8,
        height=8,
        transformations=[
            *matrix("rank", "phase", "Value", x="rank"),
            organized(("rank", *names.PHASES, "other"), {}),
            sorted_by("communication"),
        ],
        overrides=PHASE_COLOURS,
        no_value="No phases in this range",
    ),
    lines(
        "Straggler ratio by rank",
        "A rank's own work per step (its time without communication and evaluation) relative to "
        "the median of the other ranks. Above the dashed line it slows down the run, and "
        "MLBenchStraggler fires. With many ranks: the slowest five, with a band of all.",
        of_rule(RATIO),
        unit="suffix: times",
        decimals=2,
        width=16,
        least=0.8,
        data_points=100,
        limits=thresholds.STRAGGLER,
        overrides=OF_RANKS,
        no_value="No communication of two ranks in this range",
    ),
    figure(
        "Progress",
        "Last step: age, of the rank furthest behind; MLBenchRunStalled fires after 30 usual "
        "steps (at least 30 s). Communication: share of training time, waiting for other ranks "
        "included; lower is better. Missing samples: recorded but stored nowhere; must be 0 at "
        "the end.",
        value(duration(f"{{{RUN}}}"), "elapsed"),
        value(result_or_value(f"{_EPOCH} + 1", names.RUN_EPOCHS), "epoch"),
        value(f"run:mlbench_worker_progress:age_seconds{{{RUN}}}", "last step"),
        value(result_or(_COMMUNICATION, names.RUN_COMMUNICATION), "communication"),
        value(_MISSING, "missing samples"),
        height=8,
        size=20,
        show=BigValueTextMode.VALUE_AND_NAME,
        decimals=0,
        overrides={
            "elapsed": {"unit": DURATION},
            "last step": {"unit": "s", "thresholds": thresholds.PROGRESS_AGE},
            "communication": _SHARE,
            "missing samples": {"unit": "locale", "thresholds": thresholds.ANY_IS_BAD},
        },
        width=8,
        no_value="Not started in this range",
    ),
)

_STEPS: Final = (
    f"sum by (run_id, rank) ({rate(f'mlbench_worker_step_seconds_sum{{{RANKS}}}')})"
    f" / (sum by (run_id, rank) ({rate(f'mlbench_worker_step_seconds_count{{{RANKS}}}')}) > 0)"
)
# Prometheus sorts labels as texts, so numbers are padded to the same length.
_IN_ORDER: Final = (
    f'label_replace(label_replace({until_end(_STEPS)}, "rank", "0000$1", "rank", "(.*)"),'
    ' "rank", "rank $1", "rank", ".*(.{4})")'
)
STEP_TIMES: Final = heat_map(
    "Step time of each rank",
    "Mean step time per rank over time, evaluation excluded; darker is slower. A dark column: "
    "all ranks were slow (synchronous training waits for the slowest). A dark row: one slow rank.",
    graph(_IN_ORDER, "{{rank}}"),
    unit="s",
    no_value="No scrape in this range",
)
