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
from mlbench.contract.names import DISTURBED_SHARE
from mlbench.contract.palette import BLUE, GREEN, GREY, ORANGE, RED


def thresholds(start: str, steps: Mapping[float, str] | None = None) -> ThresholdsConfig:
    """Return thresholds: ``start`` is the colour of the lowest values, ``steps`` of those above."""
    return ThresholdsConfig(
        mode=ThresholdsMode.ABSOLUTE,
        steps=[
            Threshold(value=None, color=start),
            *(Threshold(value=at, color=colour) for at, colour in (steps or {}).items()),
        ],
    )


PLAIN: Final = thresholds(BLUE)
GOOD: Final = thresholds(GREEN)
ANY_IS_BAD: Final = thresholds(GREEN, {1: RED})

# The alert MLBenchStraggler fires above 1.2.
STRAGGLER: Final = thresholds(GREEN, {1.1: ORANGE, 1.2: RED})
# The alert MLBenchCPUContention fires above this share.
DISTURBED: Final = thresholds(GREEN, {DISTURBED_SHARE: RED})
# Share of time in which a process of a node or container waits. A fifth is noticeable.
WAITING: Final = thresholds(GREEN, {0.2: ORANGE, 0.5: RED})
COMMUNICATION: Final = thresholds(GREEN, {0.3: ORANGE, 0.6: RED})
# The alert MLBenchSpoolGrowing fires above 0.5.
SPOOL: Final = thresholds(GREEN, {0.25: ORANGE, 0.5: RED})
# The alert MLBenchWorkerLost fires after 15 s; the master gives up a worker after 30 s.
HEARTBEAT_AGE: Final = thresholds(GREEN, {5: ORANGE, 15: RED})
PROGRESS_AGE: Final = thresholds(GREEN, {10: ORANGE, 30: RED})
TARGET_PROGRESS: Final = thresholds(BLUE, {1: GREEN})


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
    shown = ValueMappingResult(text=text, color=colour)
    return SpecialValueMap(options=DashboardSpecialValueMapOptions(match=match, result=shown))


def not_a_number(text: str, colour: str) -> ValueMapping:
    """Map NaN, which is also shown for the mean of infinite values."""
    return _special(SpecialValueMatch.NA_N, text, colour)


def missing(text: str) -> ValueMapping:
    """Map a missing value to a grey text; by default it has the colour of the lowest values."""
    return _special(SpecialValueMatch.NULL, text, GREY)


def matching(pattern: str, colour: str, index: int | None = None) -> ValueMapping:
    """Give a colour to texts that match a pattern."""
    shown = ValueMappingResult(text="$1", color=colour, index=index)
    return RegexMap(options=DashboardRegexMapOptions(pattern=f"/^({pattern})$/", result=shown))


NOT_A_NUMBER: Final = not_a_number("NaN", RED)
# Outcome of a run, or its state until the outcome is known.
RUN_STATE: Final = value_map(
    {key: (key, colour) for key, colour in palette.RUN_STATE.items()}
    | {key: (names.OUTCOMES[key], colour) for key, colour in palette.OUTCOME.items()}
)
# State of a failed run, with the reason.
WHY_FAILED: Final = matching("(?:FAILED|crashed): .*", RED)
IS_DISTURBED: Final = value_map({"0": ("no", GREY), "1": ("yes", RED)})
ALL_UP: Final = value_map({"0": ("down", RED), "1": ("some down", ORANGE), "2": ("up", GREEN)})
PROCESS: Final = value_map({"0": ("ended", GREY), "1": ("running", GREEN)})
SEVERITY: Final = value_map({"critical": ("critical", RED), "warning": ("warning", ORANGE)})
# FIRED: whether an alert fires or has fired. FIRING: highest severity over time.
FIRED: Final = value_map({"over": ("over", ORANGE), "firing": ("firing", RED)})
FIRING: Final = value_map({"0": ("none", GREY), "1": ("warning", ORANGE), "2": ("critical", RED)})

TROUBLE: Final = [
    *value_map(
        {"-": ("-", GREY), **{phase: (phase, of) for phase, of in palette.POD_PHASE.items()}}
    ),
    matching(".+", RED),
]

# Texts such as "run 3 rank 12" have a colour for each last digit of the run.
RUN_COLOURS: Final = [
    *value_map({"idle": ("idle", GREY)}),
    *(
        matching(f"run \\d*{digit} .*", colour, digit + 1)
        for digit, colour in enumerate(palette.BY_LAST_DIGIT)
    ),
]

# In links, the end of a run's time range in milliseconds; 0 if it is still running.
STILL_RUNNING: Final = value_map({"0": ("now", BLUE)})
