"""Colors of curves, states and phases on web pages, reports and dashboards.

Each has a contrast of at least 3:1 to white and to near-black backgrounds (WCAG's minimum for
graphics). Color is never the only sign: a word is always next to it.
"""

from collections.abc import Mapping
from typing import Final

from mlbench.contract.names import Bucket, OutcomeKind, Phase, RunState

GREEN: Final = "#1a9650"
BLUE: Final = "#3b82f6"
RED: Final = "#e0364c"
ORANGE: Final = "#d97706"
YELLOW: Final = "#ab8600"
GREY: Final = "#808893"

# Colors of curves in order, and of ranks and runs by their last digit. Red is left out, because it
# signals a problem.
SERIES: Final = (
    BLUE,
    ORANGE,
    "#0d9488",
    "#c2418c",
    "#8a63d2",
    YELLOW,
    GREEN,
    "#b4552d",
    "#0891b2",
    "#7c8a1e",
)

TRAINING: Final = SERIES[0]
VALIDATION: Final = SERIES[1]
TARGET: Final = GREEN

RUN_STATE: Final[Mapping[RunState, str]] = {
    "INITIALIZED": GREY,
    "STARTED": BLUE,
    "FINISHED": GREEN,
    "FAILED": RED,
    "STOPPED": ORANGE,
}
OUTCOME: Final[Mapping[OutcomeKind, str]] = {
    "reached": GREEN,
    "not_reached": ORANGE,
    "nan": RED,
    "hung": RED,
    "crashed": RED,
    "stopped": ORANGE,
    "completed": BLUE,
}
# Background and text color of each level, from worst to best.
HEAT: Final = (
    *((colour, "#000000") for colour in ("#e4effc", "#c3dbf8", "#9bc2f2", "#6da3e8")),
    *((colour, "#ffffff") for colour in ("#2f6fc4", "#1f529b", "#143a73")),
)
# By the phases of Kubernetes.
POD_PHASE: Final[Mapping[str, str]] = {
    "Pending": YELLOW,
    "Running": GREEN,
    "Succeeded": BLUE,
    "Failed": RED,
    "Unknown": GREY,
}
# These differ from the colors of training, validation and target curves.
PHASE: Final[Mapping[Phase, str]] = {
    "data": "#8a63d2",
    "forward": "#0891b2",
    "backward": "#0d9488",
    "communication": "#b4552d",
    "optimizer": "#7c8a1e",
    "compute": "#3f7d9c",
    "metrics": "#c2418c",
    "checkpoint": "#a16207",
    "evaluation": GREY,
    "restore": "#6d6aa8",
    "compile": "#a05a7f",
}
# Buckets with the name of a phase have the phase's color. ``unknown`` is hatched instead.
BUCKET: Final[Mapping[Bucket, str]] = {
    "queued": "#8c8577",
    "workers": "#a08050",
    "start": "#6f8f8a",
    "initialization": "#5f7fb0",
    "waiting": "#cf6a4a",
    "contention": "#b8862b",
    "paused": "#7a7f99",
    "stopped": "#a9713d",
    "diverged": "#c04545",
    "hung": "#8560b0",
    "lost": RED,
    "detection": "#c04a8f",
    "restart": "#9a4fb0",
    "idle": "#8a9099",
}
