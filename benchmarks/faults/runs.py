"""Runs into which faults are injected, and checks of their values afterwards."""

import shlex
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.faults import training
from benchmarks.faults.disturb import WORKERS
from mlbench import ApiClient
from mlbench.contract.errors import MLBenchError
from mlbench.contract.records import Run
from mlbench.local.home import Home
from tests.conftest import wait_for
from tests.support.stacks import order_command

# The maximum of a run. A thousand kills use up the restarts of several runs.
_RESTARTS = 100
_END_SECONDS = 300.0


@dataclass
class Ledger:
    """Submits runs to a stack one by one, and compares their values with their notes."""

    home: Home
    runs: list[int] = field(default_factory=list)
    began_at: float = field(default_factory=time.monotonic)

    @property
    def _notes(self) -> Path:
        folder = self.home.root.parent / "notes"
        folder.mkdir(exist_ok=True)
        return folder

    def begin_run(self) -> None:
        """Submit a run, and wait until it records."""
        command = shlex.join([sys.executable, training.__file__, str(self._notes)])
        options = {"num_workers": WORKERS, "max_restarts": _RESTARTS}
        with ApiClient.from_home(self.home) as client:
            run = order_command(client, "faults", command, **options)
        self.runs.append(run.id)
        wait_for(lambda: any(self._notes.glob(f"{run.id}-*")), what="the run records")

    def keep_going(self) -> None:
        """Submit another run if the last one has ended."""
        run = self._try_to_get(self.runs[-1])
        if run is not None and not run.active:
            self.begin_run()

    def wait_until_sealed(self) -> None:
        """Wait until all runs have ended, are counted, and have their archives."""

        def is_sealed(run_id: int) -> bool:
            run = self._try_to_get(run_id)
            return run is not None and run.delivery is not None and bool(run.archive)

        for run_id in self.runs:
            wait_for(partial(is_sealed, run_id), _END_SECONDS, "the run ends")

    def settle(self) -> str:
        """Wait until all runs have ended, compare value by value, and return a summary."""
        self.wait_until_sealed()
        total, notes = Counter[str](), []
        for run_id in self.runs:
            with ApiClient.from_home(self.home) as client:
                run = client.get_run(run_id).result().value
                series = client.get_run_metrics(run_id, metric_filter=training.METRIC)
                points = series.result().value
            assert run.delivery is not None
            if run.state != "FINISHED" and run.attempt <= _RESTARTS:  # else it rightly failed
                notes.append(f"run {run_id} {run.state}: {run.reason.splitlines()[0]}")
            counts = run.delivery
            total.update(
                recorded=counts.recorded, stored=counts.in_prometheus, kept=counts.record_only
            )
            for rank in range(WORKERS):
                of_rank = points.get(f"{training.METRIC} @ {rank}", [])
                values = [round(point.number) for point in of_rank]
                total.update(training.check_values(self._notes, run_id, rank, values))
        adds_up = total["noted"] == total["recorded"] == total["stored"] + total["kept"]
        is_right = adds_up and not (total["lost"] or total["doubled"] or notes)
        counted = ", ".join(f"{count:,} {outcome}" for outcome, count in total.items())
        verdict = "; ".join(["ok" if is_right else "WRONG", *notes])
        seconds = time.monotonic() - self.began_at
        return f"{len(self.runs)} runs: {counted}; {seconds:.0f} s; {verdict}"

    def _try_to_get(self, run_id: int) -> Run | None:
        try:
            with ApiClient.from_home(self.home) as client:
                return client.get_run(run_id).result().value
        except MLBenchError:
            return None
