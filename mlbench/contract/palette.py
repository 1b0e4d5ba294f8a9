"""Colors of curves, states and phases on web pages, reports and dashboards.

Colors of states have a contrast of at least 3:1 to white and to near-black backgrounds (WCAG's
minimum for graphics). Color is never the only sign: a word is always next to it.
"""

from collections.abc import Mapping
from typing import Final

from mlbench.contract.names import Bucket, OutcomeKind, Phase, RunState

GREEN: Final = "#127a43"
BLUE: Final = "#3366e0"
RED: Final = "#d0382e"
ORANGE: Final = "#9a5b00"
GREY: Final = "#808893"

# Colors of curves in the order in which runs are selected. Okabe and Ito chose them, so
# that readers who confuse red and green can tell them apart; two were added.
SERIES: Final = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#7a5195",
    "#8c8c00",
)
# Colors of ranks and runs on dashboards, where only the last digit of their number is known.
BY_LAST_DIGIT: Final = (*SERIES, "#6b7f94", "#a0522d")

TRAINING: Final = SERIES[4]
VALIDATION: Final = SERIES[0]
TARGET: Final = GREEN

# Green, orange and red mean success, a warning and a problem, and nothing else. A run that ended is
# colored by its outcome.
RUN_STATE: Final[Mapping[RunState, str]] = {
    "INITIALIZED": GREY,
    "STARTED": BLUE,
    "FINISHED": GREY,
    "FAILED": RED,
    "STOPPED": GREY,
}
OUTCOME: Final[Mapping[OutcomeKind, str]] = {
    "reached": GREEN,
    "not_reached": GREY,
    "nan": RED,
    "hung": RED,
    "crashed": RED,
    "stopped": GREY,
    "completed": GREY,
}
# Background and text color of each level, from worst to best.
HEAT: Final = (
    *((colour, "#000000") for colour in ("#e4effc", "#c3dbf8", "#9bc2f2", "#6da3e8")),
    *((colour, "#ffffff") for colour in ("#2f6fc4", "#1f529b", "#143a73")),
)
# Colors of pods by their phase in Kubernetes.
POD_PHASE: Final[Mapping[str, str]] = {
    "Pending": GREY,
    "Running": BLUE,
    "Succeeded": GREY,
    "Failed": RED,
    "Unknown": ORANGE,
}
# Work is blue, communication orange, and the rest slate. Phases next to each other in a bar differ
# by at least 20 (CIE 1976 color difference).
PHASE: Final[Mapping[Phase, str]] = {
    "data": "#a7cbea",
    "forward": "#6aa5dc",
    "backward": "#1f4e80",
    "communication": "#d9772b",
    "optimizer": "#5aa9b8",
    "compute": "#3f7fbf",
    "metrics": "#cfe2f3",
    "checkpoint": "#88969c",
    "evaluation": "#48526b",
    "restore": "#d3d7e3",
    "compile": "#3e5c6e",
}
# Buckets with the name of a phase have the phase's color; ``unknown`` is hatched instead. Overhead
# is stone or slate, and lost time red. Buckets differ by at least 20 from the next two, and from
# `compute` on from all others, because empty ones are left out of a bar.
BUCKET: Final[Mapping[Bucket, str]] = {
    "queued": "#958e87",
    "workers": "#655144",
    "start": "#d9d6bf",
    "initialization": "#8fa3b8",
    "contention": "#b9a06a",
    "waiting": "#f5b56e",
    "paused": "#e0c8f0",
    "stopped": "#cd6966",
    "diverged": "#eeaaa8",
    "hung": "#772e2b",
    "lost": "#fe5c54",
    "detection": "#f09068",
    "restart": "#a82840",
    "idle": "#606058",
}
