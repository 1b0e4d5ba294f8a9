"""The runs beside which faults are made, and what is found of their values afterwards."""

import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from benchmarks.faults.stack import WORKERS, Stack, wait_for
from benchmarks.faults.training import METRIC, Check, check_values
from mlbench.assets import CHECKOUT
from mlbench.errors import ApiError, MLBenchError
from mlbench.records import Run

# As many as a run may have: a thousand kills use up those of some runs.
_RESTARTS = 100
_VALUES = 1500
_RATE = 100.0
_END_SECONDS = 300.0


@dataclass(frozen=True)
class Outcome:
    """What became of some runs' values."""

    runs: int
    recorded: int
    in_prometheus: int
    kept: int
    check: Check
    seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lost, doubled = self.check.lost, self.check.doubled
        adds_up = self.recorded == self.in_prometheus + self.kept
        verdict = "ok" if adds_up and not (lost or doubled or self.notes) else "WRONG"
        return (
            f"{self.runs:>3} runs {self.recorded:>7,} recorded = "
            f"{self.in_prometheus:>7,} stored + {self.kept:,} kept; {lost} lost, "
            f"{doubled} doubled; {self.seconds:.0f} s; {'; '.join([verdict, *self.notes])}"
        )


@dataclass
class Ledger:
    """Orders runs on a stack one after the other, and compares their values with their notes."""

    stack: Stack
    runs: list[int] = field(default_factory=list)
    began_at: float = field(default_factory=time.monotonic)

    @property
    def _notes(self) -> Path:
        folder = self.stack.home.root.parent / "notes"
        folder.mkdir(exist_ok=True)
        return folder

    def begin_run(self) -> None:
        """Order a run, and wait until it records."""
        command = [
            *(sys.executable, "-m", "benchmarks.faults.training", "--values", str(_VALUES)),
            *("--rate", str(_RATE), "--notes", str(self._notes)),
        ]
        with self.stack.client() as client:
            ordered = client.create_run(
                "faults",
                WORKERS,
                num_cpus=None,
                custom_image_name="none/needed",
                custom_image_command=shlex.join(command),
                working_dir=str(CHECKOUT),
                max_restarts=_RESTARTS,
            )
            run_id = ordered.result().value.id
        self.runs.append(run_id)
        wait_for(lambda: any(self._notes.glob(f"{run_id}-*")), 60, "the run records")

    def keep_going(self) -> None:
        """Order another run if the last one has ended."""
        run = self._try_to_get(self.runs[-1])
        if run is not None and not run.active:
            self.begin_run()

    def settle(self) -> Outcome:
        """Wait until all runs have ended and are counted, and compare value by value."""
        total, recorded, stored, kept = Check(), 0, 0, 0
        notes: list[str] = []
        for run_id in self.runs:
            wait_for(partial(self._is_counted, run_id), _END_SECONDS, "the run ends")
            with self.stack.client() as client:
                run = client.get_run(run_id).result().value
            assert run.delivery is not None
            if run.state != "FINISHED" and run.attempt <= _RESTARTS:  # else it rightly failed
                notes.append(f"run {run_id} {run.state}: {run.reason.splitlines()[0]}")
            recorded += run.delivery.recorded
            stored += run.delivery.in_prometheus
            kept += run.delivery.kept
            total += self._check(run_id)
        if total.recorded != recorded:
            notes.append(f"the ranks noted {total.recorded:,}")
        seconds = time.monotonic() - self.began_at
        return Outcome(len(self.runs), recorded, stored, kept, total, seconds, tuple(notes))

    def read_again(self, outcome: Outcome) -> Outcome:
        """Return an outcome, with a note if less is read of the last run than it has, or more."""
        with suppress(ApiError):
            check = self._check(self.runs[-1])
            if check.lost or check.doubled:
                return replace(outcome, notes=(*outcome.notes, "read as if nothing were missing"))
        return outcome

    def _check(self, run_id: int) -> Check:
        total = Check()
        with self.stack.client() as client:
            series = client.get_run_metrics(run_id, metric_filter=METRIC).result().value
        for rank in range(WORKERS):
            values = [float(point.value) for point in series.get(f"{METRIC} @ {rank}", [])]
            total += check_values(self._notes, run_id, rank, values)
        return total

    def _is_counted(self, run_id: int) -> bool:
        run = self._try_to_get(run_id)
        return run is not None and not run.active and run.delivery is not None

    def _try_to_get(self, run_id: int) -> Run | None:
        try:
            with self.stack.client() as client:
                return client.get_run(run_id).result().value
        except MLBenchError:
            return None
