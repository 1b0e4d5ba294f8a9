"""Carry out registered benchmark sets: one run at a time, in the order of the plan.

A decision depends only on the plan and its runs. The row of a run records its submission, in one
transaction, so a controller that is killed at any instruction neither repeats nor loses a run.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mlbench.contract.records import RunSet
from mlbench.evaluation.inputs import OWN_CRITERIA
from mlbench_master.errors import NotFoundError, RefusedError, ServiceUnavailableError
from mlbench_master.notify import Waiter
from mlbench_master.reading.series import SeriesReader
from mlbench_master.results import result_query
from mlbench_master.runs import benchmark_sets, lifecycle
from mlbench_master.settings import InstallationLimits

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submit:
    """Submit the run of a slot."""

    slot: int


@dataclass(frozen=True)
class Finish:
    """Submit no further run of the set."""

    reason: str = ""


def decide(run_set: RunSet, are_means_known: Callable[[], bool]) -> Submit | Finish | None:
    """Return the next step of a running set; None while a run of it is active.

    ``are_means_known`` is asked at the end of each repeat of a set with ``until_percent``.
    """
    if any(slot.active for slot in run_set.slots):
        return None
    if not run_set.waiting:
        return Finish()
    first, percent = run_set.waiting[0], run_set.until_percent
    combinations = {(slot.num_workers, *slot.swept.items()) for slot in run_set.slots}
    begins_repeat = (first - 1) % len(combinations) == 0
    if percent is not None and begins_repeat and are_means_known():
        return Finish(f"every mean is known to within {percent:.3g}%")
    return Submit(first)


@dataclass(frozen=True)
class SetRunner:
    """Carries out the registered sets of an installation."""

    reader: SeriesReader
    limits: InstallationLimits

    def run(self, waiter: Waiter) -> None:
        """Take the next step of each set until stopped."""
        while not waiter.wait(1.0):
            try:
                self.look()
            except Exception:
                log.exception("carrying out sets failed, trying again")

    def look(self) -> None:
        """Take the next step of each set."""
        for row in benchmark_sets.find_next():
            try:
                self.take_step(benchmark_sets.describe(row))
            except NotFoundError as error:  # a run of the set was deleted meanwhile
                log.info("set %s: %s", row.name, error)

    def take_step(self, run_set: RunSet) -> None:
        """Submit the next run of a set, or end the set."""
        name = run_set.name

        def are_means_known() -> bool:
            runs = [lifecycle.find(run_id) for run_id in run_set.counted]
            if not runs or run_set.until_percent is None:
                return False
            groups = result_query.comparison_of(self.reader, runs, OWN_CRITERIA).groups
            return all(group.is_known(run_set.until_percent) for group in groups)

        match decide(run_set, are_means_known):
            case Submit(slot):
                try:
                    benchmark_sets.submit(name, slot, self.limits)
                except ServiceUnavailableError as error:  # the disk is full, which may pass
                    benchmark_sets.settle(name, "running", str(error))
                except RefusedError as error:
                    benchmark_sets.settle(name, "stopped", f"slot {slot} was refused: {error}")
            case Finish(reason):
                log.info("set %s: finished %s", name, reason)
                benchmark_sets.settle(name, "finished", reason)
