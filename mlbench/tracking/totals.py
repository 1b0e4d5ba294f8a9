"""Totals of a training process, which Prometheus scrapes from its agent.

prometheus-client keeps them in memory-mapped files under $PROMETHEUS_MULTIPROC_DIR, which must be
set before this module is imported. The files outlive the process, so its last values are scraped.
"""

import time

from prometheus_client import Counter, Gauge, Histogram

from mlbench.contract import names
from mlbench.contract.names import Phase

_LABELS = ("run_id", "rank")
_STEPS = Counter(names.WORKER_STEPS, "Training steps done.", _LABELS)
_SAMPLES = Counter(names.WORKER_SAMPLES, "Training samples seen.", _LABELS)
_PHASES = Counter(names.WORKER_PHASE_SECONDS, "Time spent by phase.", (*_LABELS, "phase"))
_STEP_SECONDS = Histogram(
    names.WORKER_STEP_SECONDS,
    "Duration of a training step, evaluation left out.",
    _LABELS,
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
_PROGRESS = Gauge(
    names.WORKER_PROGRESS,
    "When a training step was done or an evaluation begun, last.",
    _LABELS,
    multiprocess_mode="max",
)


class Totals:
    """Totals of one rank."""

    def __init__(self, run_id: str, rank: str) -> None:
        self._steps = _STEPS.labels(run_id, rank)
        self._samples = _SAMPLES.labels(run_id, rank)
        self._step_seconds = _STEP_SECONDS.labels(run_id, rank)
        self._progress = _PROGRESS.labels(run_id, rank)
        self._phases = {phase: _PHASES.labels(run_id, rank, phase) for phase in names.PHASES}

    def observe_step(self, seconds: float) -> None:
        """Add the duration of a step to the histogram."""
        self._step_seconds.observe(seconds)

    def publish(self, steps: int, samples: int, phases: dict[Phase, float]) -> None:
        """Add the steps, samples and seconds by phase since the last call."""
        self._steps.inc(steps)
        self._samples.inc(samples)
        for phase, seconds in phases.items():
            self._phases[phase].inc(seconds)
        if steps:
            self.mark_progress()

    def mark_progress(self) -> None:
        """Set the time of the last progress; an alert fires if it is long ago."""
        self._progress.set(time.time())
