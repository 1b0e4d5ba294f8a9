"""Thresholds of values, and colours and texts of states, which all boards share."""

from collections.abc import Mapping
from typing import Final

from grafana_foundation_sdk.models.dashboard import (
    DashboardRegexMapOptions,
    DashboardSpecialValueMapOptions,
    RegexMap,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsConfig,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)

from mlbench.contract import names, palette
from mlbench.contract.metric_titles import metric_title
from mlbench.contract.names import DISTURBED_SHARE
from mlbench.contract.palette import BLUE, GREY, ORANGE, RED


def thresholds(start: str, steps: Mapping[float, str] | None = None) -> ThresholdsConfig:
    """Return thresholds: ``start`` is the colour of the lowest values, ``steps`` of those above."""
    return ThresholdsConfig(
        mode=ThresholdsMode.ABSOLUTE,
        steps=[
            Threshold(value=None, color=start),
            *(Threshold(value=at, color=colour) for at, colour in (steps or {}).items()),
        ],
    )


# Text color of Grafana's theme. Green, orange and red are for outcomes and severity alone.
TEXT: Final = "text"
PLAIN: Final = thresholds(TEXT)
BARS: Final = thresholds(BLUE)
ANY_IS_BAD: Final = thresholds(TEXT, {1: RED})

# The alert MLBenchStraggler fires above 1.2.
STRAGGLER_FROM: Final = 1.1
STRAGGLER: Final = thresholds(TEXT, {STRAGGLER_FROM: ORANGE, 1.2: RED})
# The alert MLBenchCPUContention fires above this share.
DISTURBED: Final = thresholds(TEXT, {DISTURBED_SHARE: RED})
# Share of time in which a process of a node or container waits. A fifth is noticeable.
WAITING: Final = thresholds(TEXT, {0.2: ORANGE, 0.5: RED})
# The alert MLBenchSpoolGrowing fires above 0.5.
SPOOL: Final = thresholds(TEXT, {0.25: ORANGE, 0.5: RED})
# The alert MLBenchWorkerLost fires after 15 s; the master gives up a worker after 30 s.
HEARTBEAT_AGE: Final = thresholds(TEXT, {5: ORANGE, 15: RED})
PROGRESS_AGE: Final = thresholds(TEXT, {10: ORANGE, 30: RED})


def value_map(meanings: Mapping[str, tuple[str, str]]) -> list[ValueMapping]:
    """Map values to (text, colour)."""
    return [
        ValueMap(
            options={
                value: ValueMappingResult(text=text, color=colour, index=index)
                for index, (value, (text, colour)) in enumerate(meanings.items())
            }
        )
    ]


def _special(match: SpecialValueMatch, text: str, colour: str) -> ValueMapping:
    mapping = ValueMappingResult(text=text, color=colour)
    return SpecialValueMap(options=DashboardSpecialValueMapOptions(match=match, result=mapping))


def not_a_number(text: str, colour: str) -> ValueMapping:
    """Map NaN, which is also shown for the mean of infinite values."""
    return _special(SpecialValueMatch.NA_N, text, colour)


def missing(text: str) -> ValueMapping:
    """Map a missing value to a grey text; by default it has the colour of the lowest values."""
    return _special(SpecialValueMatch.NULL, text, GREY)


def matching(pattern: str, colour: str, index: int | None = None) -> ValueMapping:
    """Give a colour to texts that match a pattern."""
    mapping = ValueMappingResult(text="$1", color=colour, index=index)
    return RegexMap(options=DashboardRegexMapOptions(pattern=f"/^({pattern})$/", result=mapping))


NOT_A_NUMBER: Final = not_a_number("NaN", RED)
# Outcome of a run, or its state until the outcome is known.
_STATES: Final[Mapping[names.RunState, str]] = {
    "INITIALIZED": "waiting",
    "STARTED": "running",
    "FINISHED": "finished",
    "FAILED": "failed",
    "STOPPED": "stopped",
}
RUN_STATE: Final = value_map(
    {key: (_STATES[key], colour) for key, colour in palette.RUN_STATE.items()}
    | {key: (names.OUTCOMES[key], colour) for key, colour in palette.OUTCOME.items()}
)
# Titles of the metrics that targets usually have. Other metrics keep their names.
METRIC_TITLES: Final = {
    metric: metric_title(metric)
    for metric in (
        names.VAL_ACCURACY,
        names.VAL_R2,
        names.VAL_PERPLEXITY,
        "val_accuracy",
        "val_loss",
    )
}
METRIC: Final = value_map({metric: (title, "text") for metric, title in METRIC_TITLES.items()})
# Outcome of a failed run, with the reason.
WHY_FAILED: Final = matching("(?:FAILED|crashed|hung|nan): .*", RED)
ALL_UP: Final = value_map({"0": ("down", RED), "1": ("some down", ORANGE), "2": ("up", BLUE)})
PROCESS: Final = value_map({"0": ("ended", GREY), "1": ("running", BLUE)})
SEVERITY: Final = value_map({"critical": ("critical", RED), "warning": ("warning", ORANGE)})
# FIRED: severity of an alert that fires, or that it is over. FIRING: highest severity over time.
FIRED: Final = [*value_map({"over": ("over", GREY)}), *SEVERITY]
FIRING: Final = value_map({"0": ("none", GREY), "1": ("warning", ORANGE), "2": ("critical", RED)})

# Critical alerts about a pod, without the common prefix.
CRITICAL_ALERTS: Final = ("LossNotFinite", "RunStalled", "TargetDown", "WorkerLost")
TROUBLE: Final = [
    *value_map(
        {"-": ("-", GREY), **{phase: (phase, of) for phase, of in palette.POD_PHASE.items()}}
    ),
    matching("|".join(CRITICAL_ALERTS), RED, 1),
    matching(".+", ORANGE, 2),
]

# Activity of a worker or node. Two blues alternate between runs, and alerts have their severity.
_RUNNING: Final = (BLUE, "#7fa0ee")
ACTIVITY: Final = [
    *value_map({"idle": ("idle", GREY)}),
    *(matching(f"run \\d*{digit}\\b.*", _RUNNING[digit % 2], digit + 1) for digit in range(10)),
    matching("Straggler: .*", ORANGE, 11),
    matching("\\w+: .*", RED, 12),
]

# In links, the end of a run's time range in milliseconds; 0 if it is still running.
STILL_RUNNING: Final = value_map({"0": ("now", BLUE)})
