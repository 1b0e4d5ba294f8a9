"""Names and groups of the buckets of worker time, and Google's names for them."""

from collections.abc import Mapping
from typing import Final

from mlbench.contract.names import Bucket

PRODUCTIVE: Final[tuple[Bucket, ...]] = ("compute", "communication")
"""Buckets that advance the model: goodput."""

WHOLE_STEPS: Final[tuple[Bucket, ...]] = (*PRODUCTIVE, "waiting", "contention", "stopped")
"""Buckets within steps. Google's ml-goodput-measurement counts them all as productive."""

BEGINNING: Final[tuple[Bucket, ...]] = ("start", "initialization", "compile", "restore")
"""Buckets between the start of a process and its first training step."""

TITLES: Final[Mapping[Bucket, str]] = {
    "queued": "queued",
    "workers": "waiting for workers",
    "start": "pod startup",
    "initialization": "initialization",
    "compile": "compile",
    "restore": "checkpoint restored",
    "compute": "compute",
    "contention": "CPU contention",
    "communication": "communication",
    "waiting": "straggler wait",
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
    "idle": "teardown",
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
"""BadputType of ml-goodput-measurement that corresponds to each bucket.

Buckets within steps have none, because ml-goodput-measurement counts whole steps as productive.
"""
