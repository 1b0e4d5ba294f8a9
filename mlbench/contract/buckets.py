"""What the buckets of a run's worker-seconds are called, here and by Google."""

from collections.abc import Mapping
from typing import Final

from mlbench.contract.names import Bucket

PRODUCTIVE: Final[tuple[Bucket, ...]] = ("compute", "communication")
"""What moves a model forward: no step can do without them, however fast all ranks are."""

WHOLE_STEPS: Final[tuple[Bucket, ...]] = (*PRODUCTIVE, "waiting", "contention", "stopped")
"""The time within steps. Google's ml-goodput-measurement counts all of it as productive."""

BEGINNING: Final[tuple[Bucket, ...]] = ("start", "initialization", "compile", "restore")
"""What a process needs until it trains."""

TITLES: Final[Mapping[Bucket, str]] = {
    "queued": "queued",
    "workers": "waiting for workers",
    "start": "image and start",
    "initialization": "imports and initialization",
    "compile": "compile",
    "restore": "checkpoint restored",
    "compute": "compute",
    "contention": "CPU contention",
    "communication": "communication",
    "waiting": "waiting for the slowest rank",
    "data": "data",
    "evaluation": "evaluation",
    "checkpoint": "checkpoint saved",
    "paused": "paused",
    "stopped": "stopped or slowed",
    "diverged": "after the loss became NaN",
    "hung": "hung",
    "lost": "lost",
    "detection": "detecting a failure",
    "restart": "restart",
    "idle": "idle at the end",
    "unknown": "unknown",
}

GOOGLE: Final[Mapping[Bucket, str]] = {
    "initialization": "TPU_INITIALIZATION, TRAINING_PREP",
    "compile": "PROGRAM_STARTUP",
    "data": "DATA_LOADING_SYNC",
    "evaluation": "CUSTOM_BADPUT_EVENTS",
    "checkpoint": "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
    "restore": "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME",
    "lost": "WASTED_PROGRESS_FROM_DISRUPTION",
    "restart": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "unknown": "OTHER",
}
"""The BadputType of ml-goodput-measurement for the same. What it has productive are whole steps,
with communication and waiting for the slowest rank."""
