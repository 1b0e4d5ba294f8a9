"""Six figures of the run: state, target, loss, speed, straggler, alerts."""

from functools import partial
from typing import Final

from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana import links, thresholds
from grafana.boards.run.queries import (
    DISTURBED,
    FIRING,
    RATIO,
    RUN,
    TRAIN_LOSS,
    VAL_LOSS,
    named_alerts,
    result_or,
    result_or_value,
)
from grafana.boards.run.speed import THROUGHPUT
from grafana.graphs import figure
from grafana.line import extreme_kept, newest_kept
from grafana.panels import BY_THRESHOLD
from grafana.queries import (
    SECONDS,
    by,
    called,
    column,
    latest,
    moment,
    state_or_outcome,
    time_to_target,
    value,
)
from grafana.table_panels import PanelColumn, rows
from grafana.transformations import one_row
from mlbench.contract import names, palette

_STATE = f"({state_or_outcome(RUN)})"
_FAILURE = f"topk by (run_id) (1, {latest(f'mlbench_run_failure_info{{{RUN}}}')})"

_TARGET = by("run_id", latest(f"mlbench_run_target{{{RUN}}}"))
_OF_TARGET: Final = 'metric="$target"'
_VALUE = f"({result_or_value(by('run_id', newest_kept(RUN, _OF_TARGET)), names.RUN_LAST_VALUE)})"
# Three significant digits, by the target: 94.4 for 97, 0.512 for 0.5.
_SCALE = f"10 ^ (2 - floor(log10(clamp_min(abs({_TARGET}), 1e-6))))"
_PROGRESS = (
    f'label_join(count_values by (run_id) ("value", round({_VALUE} * {_SCALE}) / {_SCALE})'
    f' * on (run_id) group_left (target) count_values by (run_id) ("target", {_TARGET})'
    ', "now", " of ", "value", "target")'
)
_BEST = result_or_value(
    f"{extreme_kept(RUN, _OF_TARGET, 'max')}"
    f' unless on (run_id) mlbench_run_target{{{RUN},better="lower"}}'
    f" or on (run_id) {extreme_kept(RUN, _OF_TARGET, 'min')}",
    names.RUN_BEST_VALUE,
)
# NaN: a target that is not reached. A run without a target has no value.
_NO_TIME = [thresholds.not_a_number("not reached", palette.GREY), thresholds.missing("-")]
_TOOK = f"{time_to_target(RUN)} or on (run_id) {_TARGET} * NaN"

_LOSS = " or ".join(
    called("curve", name, "avg by (run_id) " + newest_kept(RUN, f'metric=~"{metrics}"'))
    for name, metrics in (("training", TRAIN_LOSS), ("validation", VAL_LOSS))
)

_SPEED = result_or(THROUGHPUT, names.RUN_SAMPLES_PER_SECOND)
_RATIO = result_or(f"topk(1, {RATIO}{{{RUN}}})", names.RUN_STRAGGLER, "run_id, rank")
# Below the first threshold, nobody is named.
_LATE = f"({_RATIO}) >= {thresholds.STRAGGLER_FROM}"
_KNOWN = f"(max by (run_id) ({_RATIO}) or {moment('finished', f'{{{RUN}}}')})"
_STRAGGLER = (
    f'label_replace({_LATE}, "who", "rank $1", "rank", "(.+)")'
    f" or on (run_id) {called('who', 'straggler', f'0 * {_KNOWN}')}"
)
_WAITS = result_or(f"topk(1, {DISTURBED}{{{RUN}}})", names.RUN_CONTENTION_RATIO, "run_id, rank")

_FIRES = by(
    "alert, alertname, state",
    f'label_replace({named_alerts(FIRING)}, "state", "$1", "severity", "(.*)")',
)
_OVER = f"{by('alert, alertname', named_alerts(latest(FIRING)))} unless on (alertname) {FIRING}"

_DISTURBED = {"unit": "percentunit", "color": BY_THRESHOLD, "thresholds": thresholds.DISTURBED}
_tile = partial(figure, height=5)
HEADLINE: Final = (
    _tile(
        "Outcome",
        "Outcome of the run, with the reason of a failure; before its end, its state. Click for "
        "the web page with its log.",
        column(
            "A",
            f"label_join({_STATE} * on (run_id) group_left (reason) {_FAILURE},"
            f' "state", ": ", "state", "reason") or on (run_id) {_STATE}',
        ),
        size=18,
        field="/^state$/",
        mappings=(*thresholds.RUN_STATE, thresholds.WHY_FAILED),
        links=(links.WEB_PAGE, links.WHOLE_RUN),
        no_value="No data in this range",
    ),
    _tile(
        "Target",
        "Newest value of the target's metric, the target and the best value. Took: training time "
        "until the target, evaluation excluded.",
        column("A", _PROGRESS),
        column("B", _BEST),
        column("C", _TOOK),
        size=20,
        field="/^(now|best|took)$/",
        show=BigValueTextMode.VALUE_AND_NAME,
        unit="short",
        transformations=one_row({"now": "now", "Value #B": "best", "Value #C": "took"}),
        overrides={"took": {"unit": SECONDS, "mappings": _NO_TIME}},
        no_value="No target, or no value yet",
    ),
    _tile(
        "Loss",
        "Mean loss of all ranks. Red: not a finite number; further training is wasted.",
        value(_LOSS, "{{curve}}"),
        size=20,
        show=BigValueTextMode.VALUE_AND_NAME,
        unit="short",
        mappings=(thresholds.NOT_A_NUMBER,),
        width=3,
        no_value="No loss in this range",
    ),
    _tile(
        "Samples/s",
        "Training throughput of all ranks, evaluation excluded: current, or the mean once the "
        "run has ended. Below: CPU contention of the most affected rank. Red: results may be "
        "distorted.",
        value(_SPEED, "samples/s"),
        value(_WAITS, "CPU contention, rank {{rank}}"),
        size=20,
        unit="locale",
        decimals=0,
        show=BigValueTextMode.VALUE_AND_NAME,
        overrides={"/^CPU contention/": _DISTURBED},
        no_value="Unknown",
    ),
    _tile(
        "Straggler ratio",
        "Slowest rank's compute time per step relative to the median of the others, over the "
        "last minute. After the run: the speedup if the straggler had been on time. None: below "
        "1.1.",
        value(_STRAGGLER, "{{who}}"),
        size=20,
        unit="suffix: times",
        decimals=2,
        colours=thresholds.STRAGGLER,
        mappings=thresholds.value_map({"0": ("none", palette.GREY)}),
        show=BigValueTextMode.VALUE_AND_NAME,
        no_value="Unknown",
    ),
    rows(
        "Alerts",
        "Alerts of this run that fire, or fired in this time range. Click one for its runbook; "
        "the timeline below shows when.",
        column("alerts", f"{_FIRES} or on (alertname) {called('state', 'over', _OVER)}"),
        columns=(
            PanelColumn("alert", unit="none", width=135, links=(links.RUNBOOK,)),
            PanelColumn("state", " ", unit="none", width=75, mappings=thresholds.FIRED),
            PanelColumn("alertname", hidden=True),
        ),
        sort_by="alert",
        width=5,
        height=5,
        no_value="None in this range",
    ),
)
