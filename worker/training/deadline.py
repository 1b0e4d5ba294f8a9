"""The deadline of a run: once it has passed for one rank, all of them end after the same step."""

import os
import time
from collections.abc import Mapping

import torch

from mlbench import Tracker, names
from worker.training.distributed import World


class Deadline:
    """When training shall end, if a run has such a time; what is evaluated then, still counts."""

    def __init__(self, at: float | None, world: World, tracker: Tracker) -> None:
        """``at`` is in Unix seconds by the clock of this machine; None: training may take for ever.

        Either all ranks have a deadline, or none has.
        """
        self._at = at
        self._world = world
        self._tracker = tracker
        self._passed = False

    @classmethod
    def from_environ(
        cls, world: World, tracker: Tracker, environ: Mapping[str, str] = os.environ
    ) -> "Deadline":
        """Return the deadline $MLBENCH_DEADLINE; where it is not set, there is none."""
        at = environ.get(names.ENV_DEADLINE)
        return cls(float(at) if at else None, world, tracker)

    def has_passed(self) -> bool:
        """Return whether it has passed on any rank: the same on every rank.

        To be called by all ranks after the same step, as they ask each other. That is time in which
        they communicate; without a deadline it takes none.

        Raises:
            WorldError: a peer was lost.
        """
        if self._at is None or self._passed:
            return self._passed
        with self._tracker.phase("communication"):
            ranks = torch.tensor(int(time.time() >= self._at), device=self._world.device)
            self._world.sum_(ranks)
            self._passed = bool(ranks.item())
        if self._passed:
            print("the deadline has passed: training ends", flush=True)
        return self._passed
