"""The colours of curves, states and phases: the same on web pages, reports and dashboards.

Each stands out from white and from near-black paper (contrast 3:1 or more, as WCAG asks of
graphics), and is never the only sign: the word stands beside.
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

# Of curves in order; of ranks and of runs by their last digit. None is red, which says that
# something is wrong.
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
GOAL: Final = GREEN

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
# From worst to best, each with the colour of texts on it.
HEAT: Final = (
    *((colour, "#000000") for colour in ("#e4effc", "#c3dbf8", "#9bc2f2", "#6da3e8")),
    *((colour, "#ffffff") for colour in ("#2f6fc4", "#1f529b", "#143a73")),
)
# As Kubernetes names them.
POD_PHASE: Final[Mapping[str, str]] = {
    "Pending": YELLOW,
    "Running": GREEN,
    "Succeeded": BLUE,
    "Failed": RED,
    "Unknown": GREY,
}
# None is the colour of a curve of training or validation, or of a goal.
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
# Of what has a phase's name, the phase's. What is unknown has none: it is hatched.
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
