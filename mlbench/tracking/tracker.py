"""The tracker: three lines in a training script record every step, in a few µs each."""

import atexit
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, SupportsFloat

from mlbench.contract import names
from mlbench.contract.names import PHASES, UNTRAINED, Phase
from mlbench.contract.phase_mark import Mark, open_mark, phase_in
from mlbench.contract.reported_settings import Setting, reaches
from mlbench.contract.sampled_steps import is_sampled
from mlbench.tracking.recorder import Recorder, Value, check_name, to_float, to_number

# Steps record the totals after this time and this fraction of the training time, so that a long
# training does not record more totals than a result can be computed from.
_TOTALS_SECONDS, _TOTALS_PART = 1.0, 1 / 500

# Prometheus stores one value of a series per millisecond. The totals wait for the next one, because
# ``train_seconds`` may have been recorded with an accuracy just before.
_MILLISECOND = 0.001


class PhaseTimer:
    """Adds up the time spent inside ``with`` blocks, and marks that the process is in one."""

    __slots__ = ("_entered", "_mark", "_outer", "_position", "before")

    def __init__(self, mark: Mark, position: int) -> None:
        self.before = 0.0
        """Seconds before the open block; all seconds outside of a block."""
        self._entered = 0.0  # outside of a block
        self._mark, self._position, self._outer = mark, position, 0

    @property
    def seconds(self) -> float:
        """Seconds so far, including an open block."""
        entered = self._entered  # once: another thread may read this
        return self.before + (perf_counter() - entered if entered else 0.0)

    def __enter__(self) -> None:
        self._outer = self._mark[0]
        self._mark[0] = self._position
        self._entered = perf_counter()

    def __exit__(self, *_: object) -> None:
        self.before += perf_counter() - self._entered
        self._entered = 0.0
        self._mark[0] = self._outer


class Tracker:
    """Records the training of one rank.

    Each process of a worker creates its own tracker once its rank is known: from the start under
    torchrun, otherwise after the initialization of ``torch.distributed``.

    In a run, where the agent has set the environment, each value is stored in Prometheus with its
    own time. Elsewhere the same code records nothing::

        with Tracker() as t:
            t.goal("val_global_Prec@1", 97.0)
            for epoch in range(30):
                t.epoch(epoch)
                for batch in batches:
                    with t.phase("forward"):
                        ...
                    t.step(samples=len(batch), train_loss=loss)
                t.log({"val_global_Prec@1": accuracy}, step=t.steps)

    Without ``with``, the end of the process closes the tracker, unless the process is killed.
    """

    active: ClassVar[set["Tracker"]] = set()
    """Recording trackers of the process."""

    def __init__(self, environ: Mapping[str, str] = os.environ, *, run: str | None = None) -> None:
        """Start the tracker; with ``run``, record this process as a run of that name."""
        if run is not None:
            from mlbench.tracking.record_process import record  # noqa: PLC0415

            record(run)
        self.steps = 0
        """Training steps done so far."""
        self.samples = 0
        """Training samples seen so far by this rank."""
        self.goal_reached = False
        """Whether a logged value has reached the goal."""
        self.goal_seconds: float | None = None
        """Training time at which the goal was reached; None before, or if before the checkpoint."""
        self._mark = open_mark(environ if environ.get(names.ENV_METRICS_FILE) else {})
        self._timers = {phase: PhaseTimer(self._mark, i) for i, phase in enumerate(PHASES, 1)}
        # Phases of other threads overlap the training, so they do not count as its time.
        self._thread = threading.get_ident()
        self._hidden: dict[Phase, float] = {}
        self._hidden_lock = threading.Lock()
        self._began = False
        self._steps_before = 0
        self._train_seconds_before = 0.0
        self._last_step = self._last_communication = 0.0
        self._recorded_seconds = 0.0
        self._paused_at: float | None = None
        self._epoch: int | None = None
        self._logged: dict[str, Value] = {}
        self._start_clock()
        self._goal: tuple[str, float, bool] | None = None
        self._published = _Published()
        self._recorded_at = perf_counter()

        path = environ.get(names.ENV_METRICS_FILE)
        self._recorder = Recorder(Path(path), environ) if path else None
        self._totals = self._recorder.totals if self._recorder else None
        if self._recorder is not None:
            atexit.register(self._close_at_exit, os.getpid())
            self.active.add(self)

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def train_seconds(self) -> float:
        """Seconds since the first epoch began (or the tracker was made), evaluation left out."""
        if self._paused_at is not None:
            return self._paused_at
        return perf_counter() - self._started - self._timers["evaluation"].seconds

    def log(
        self,
        metrics: Mapping[str, Value] | None = None,
        /,
        *,
        step: SupportsFloat | None = None,
        **more: Value,
    ) -> None:
        """Record values with the time now: numbers (also 0-d tensors or arrays) or texts.

        Names that are not Python identifiers go into the mapping: ``t.log({"val_Prec@1": 97.1})``.
        ``step`` is recorded as a separate series at the same time.

        Raises:
            TypeError: a value is neither a number nor a text, or the step is not a number.
            ValueError: a value is a tensor of more than one number, or cannot be stored, or no
                metric can have this name, or the step is not finite.
            OSError: the line could not be written (no space left).
        """
        values: Mapping[str, Value] = {**metrics, **more} if metrics else more
        if self._goal is not None and self._goal[0] in values:
            metric, target, lower_is_better = self._goal
            seconds = self._recorded_seconds = self.train_seconds
            with suppress(ValueError):  # A string such as "diverged" does not reach the target.
                number = to_float(values[metric])
                is_reached = reaches(number, target, lower_is_better=lower_is_better)
                if is_reached and not self.goal_reached:
                    self.goal_reached, self.goal_seconds = True, seconds
            # With the same time as the accuracy, so that time to target is exact.
            values = {names.TRAIN_SECONDS: seconds, **values}
        if self._recorder is not None:
            self._recorder.write(values, step)

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """Return a context manager that times a phase of the step. Phases do not nest.

        In a thread that does not call ``epoch`` and ``step``, such as one that prefetches data, the
        time is hidden behind the training, and recorded apart. Entering "evaluation" counts as
        progress: enter it for each batch of a long evaluation.

        Raises:
            ValueError: the phase is not in ``mlbench.contract.names.PHASES``.
        """
        if phase == "evaluation" and self._totals is not None:
            self._totals.mark_progress()
        try:
            timer = self._timers[phase]
            if threading.get_ident() == self._thread:
                return timer
            return self._time_hidden(phase)
        except KeyError:
            raise ValueError(f"phase: must be one of {', '.join(PHASES)} (got {phase!r})") from None

    def move_time(self, seconds: float, source: Phase, target: Phase) -> None:
        """Count some of the time of a phase as time of another one, which happened within it."""
        self._timers[source].before -= seconds
        self._timers[target].before += seconds

    def count(self, phase: Phase, seconds: float) -> None:
        """Count time that has just passed as a phase, if the code does not time it.

        Communication within another phase moves there; data is counted outside of all phases only.
        """
        if threading.get_ident() != self._thread:
            self._count_hidden(phase, seconds)
            return
        entered = phase_in(self._mark)
        if entered is None:
            self._timers[phase].before += seconds
        elif phase == "communication" and entered not in (phase, *UNTRAINED):
            self.move_time(seconds, entered, phase)

    def phase_seconds(self) -> dict[Phase, float]:
        """Return the seconds spent so far in each phase that was entered."""
        return {phase: timer.seconds for phase, timer in self._timers.items() if timer.seconds}

    def epoch(self, number: int) -> None:
        """Mark the start of an epoch, and record the totals so far.

        The first call starts the clock of ``train_seconds``. An epoch that a checkpoint was in the
        middle of continues.
        """
        if self._paused_at is not None:
            self._train_seconds_before, self._paused_at = self._paused_at, None
            self._start_clock()
        elif not self._began and self.steps == self._steps_before:
            self._start_clock()
        self._thread = threading.get_ident()
        goes_on = number == self._epoch and not self._began
        self._began, self._epoch = True, number
        time.sleep(_MILLISECOND)
        begun = {} if goes_on else {names.EPOCH: number}
        self.log({**begun, **self._cumulative()}, step=self.steps)

    def step(self, samples: SupportsFloat, **metrics: Value) -> None:
        """Mark the end of a training step over ``samples`` samples, and record its metrics.

        The totals so far are recorded with them: once a second, in a long training less often. The
        communication is recorded for each of the first 500 steps, later for fewer of them.

        Raises:
            TypeError: ``samples`` is not a number.
            ValueError: it is negative, or not a whole number.
        """
        count = to_number("samples", samples)
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"samples: must be a whole number of at least 0 (got {count}).")
        self._thread = threading.get_ident()
        self.steps += 1
        self.samples += count
        now = self.train_seconds
        since_last, self._last_step = now - self._last_step, now
        if self._totals is not None:
            self._totals.observe_step(since_last)
            # Minimum time between updates of the scraped totals. Scrapes come every few seconds.
            if perf_counter() - self._published.at > 0.25:
                self._publish()
        communication = self._timers["communication"].before
        in_step = communication - self._last_communication
        self._last_communication = communication
        # The first step is a warm-up.
        if in_step and self.steps > self._steps_before + 1 and is_sampled(self.steps):
            metrics[names.SAMPLED_STEP] = self.steps
            metrics[names.SAMPLED_COMMUNICATION] = in_step
        since = perf_counter() - self._recorded_at
        is_due = since > _TOTALS_SECONDS and since > _TOTALS_PART * self.train_seconds
        if self._recorder is not None and is_due:
            # Write the totals in the line of their step, so that a killed process leaves both.
            self._logged = self._cumulative()
            metrics |= self._logged
        if metrics:
            self.log(metrics, step=self.steps)

    def checkpoint(self, size: int) -> None:
        """Record that a checkpoint of all steps so far is on disk, with ``size`` bytes."""
        time.sleep(_MILLISECOND)
        saved = {names.CHECKPOINT_STEP: self.steps, names.CHECKPOINT_BYTES: size}
        self.log({**saved, **self._cumulative()}, step=self.steps)
        time.sleep(_MILLISECOND)  # later values are not part of the checkpoint

    def goal(self, metric: str, value: float, *, lower_is_better: bool = False) -> None:
        """Set the goal: time to target ends when ``metric`` reaches ``value``.

        Raises:
            ValueError: the name is invalid, or the value is not finite.
        """
        check_name(metric)
        target = to_float(value)
        if not isfinite(target):
            raise ValueError(f"goal of {metric!r}: must be a finite number (got {value!r})")
        self._goal = (metric, target, lower_is_better)
        if self._recorder is not None:
            self._recorder.write_goal(metric, target, lower_is_better)

    def settings(self, settings: Mapping[str, Setting]) -> None:
        """Record the settings of the task, which the run shows; the last call counts.

        One rank does it for all. At most 500 settings, texts of at most 1024 characters.

        Raises:
            ValueError: there are more, or longer ones, or a value is neither a text, a finite
                number, a truth value nor None.
        """
        if self._recorder is not None:
            self._recorder.write_settings(settings)

    def state_dict(self) -> dict[str, Any]:
        """Return the totals so far, for a checkpoint."""
        return {
            "steps": self.steps,
            "samples": self.samples,
            "epoch": self._epoch,
            "goal_reached": self.goal_reached,
            "train_seconds": self.train_seconds,
            "phase_seconds": self.phase_seconds(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the totals of a checkpoint, and record from which step.

        Call it before the first epoch. Values that were recorded after the checkpoint then no
        longer count toward the run's result, and ``train_seconds`` continues from the checkpoint.
        The scraped totals count repeated steps.
        """
        self._publish()
        self.steps = self._steps_before = state["steps"]
        self.samples = state["samples"]
        self._epoch = state.get("epoch")
        self.goal_reached = state["goal_reached"]
        seconds = state["phase_seconds"]
        for phase, timer in self._timers.items():
            # This process compiles its program and reads its checkpoint before it calls this.
            here = timer.before if phase in ("compile", "restore") else 0.0
            timer.before = seconds.get(phase, 0.0) + here
        self._train_seconds_before, self._paused_at = state["train_seconds"], None
        self._last_communication = self._timers["communication"].before
        self._start_clock()
        at = self._published.at
        self._published = _Published(at, self.steps, self.samples, self.phase_seconds())
        self.log({names.RESTORED_STEP: self.steps})

    def pause(self) -> None:
        """Record the totals, and stop the clock of ``train_seconds`` until the next epoch."""
        self._publish()
        self._paused_at = self.train_seconds
        self._log_totals()

    def close(self) -> None:
        """Record the final totals, and close the files. Further calls record nothing.

        The clock of ``train_seconds`` stops at the last step, or at a later value of the goal's
        metric.
        """
        self._publish()
        self._totals = None
        if self._recorder is None:
            return
        if self._paused_at is None and self.steps > self._steps_before:
            # Work after the last step, such as writing files, is not training.
            self._paused_at = max(self._last_step, self._recorded_seconds)
        try:
            self._log_totals()
        finally:
            self._recorder.close()
            self._recorder = None
            self.active.discard(self)
            atexit.unregister(self._close_at_exit)

    def _close_at_exit(self, owner: int) -> None:
        # A forked process inherits the registration, but has nothing to record.
        if os.getpid() == owner:
            self.close()

    @contextmanager
    def _time_hidden(self, phase: Phase) -> Iterator[None]:
        """Count the time inside a ``with`` block of another thread."""
        entered = perf_counter()
        try:
            yield
        finally:
            self._count_hidden(phase, perf_counter() - entered)

    def _count_hidden(self, phase: Phase, seconds: float) -> None:
        with self._hidden_lock:
            self._hidden[phase] = self._hidden.get(phase, 0.0) + seconds

    def _log_totals(self) -> None:
        if self.steps and self._cumulative() != self._logged:
            time.sleep(_MILLISECOND)
            self._logged = self._cumulative()
            self.log(self._logged, step=self.steps)

    def _start_clock(self) -> None:
        # Evaluation before the start is not subtracted from the training time.
        evaluated = self._timers["evaluation"].seconds
        self._started = perf_counter() - evaluated - self._train_seconds_before
        self._last_step = self._train_seconds_before

    def _cumulative(self) -> dict[str, Value]:
        """Return the totals so far, which are about to be recorded."""
        self._recorded_at = perf_counter()
        phases: dict[str, Value] = {
            names.phase_metric(p): seconds for p, seconds in self.phase_seconds().items()
        }
        with self._hidden_lock:
            phases |= {names.hidden_metric(p): seconds for p, seconds in self._hidden.items()}
        # Without reported samples, their number is unknown.
        samples = {names.SAMPLES: self.samples} if self.samples else {}
        self._recorded_seconds = self.train_seconds
        return {**samples, names.TRAIN_SECONDS: self._recorded_seconds, **phases}

    def _publish(self) -> None:
        if self._totals is None:
            return
        before = self._published
        self._published = _Published(perf_counter(), self.steps, self.samples, self.phase_seconds())
        self._totals.publish(
            self.steps - before.steps,
            self.samples - before.samples,
            {
                phase: seconds - before.phases.get(phase, 0.0)
                for phase, seconds in self._published.phases.items()
            },
        )


class _Published(NamedTuple):
    """The totals that have been published for scraping."""

    at: float = 0.0
    steps: int = 0
    samples: int = 0
    phases: Mapping[Phase, float] = {}
