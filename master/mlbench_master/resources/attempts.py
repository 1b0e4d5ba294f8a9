"""The parameter that chooses an attempt of a run."""

from dataclasses import dataclass

from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.openapi.parameters import Whole


@dataclass(frozen=True)
class AttemptQuery:
    """The parameters of a request about an attempt of a run."""

    attempt: Whole | None = None
    """Attempt of the run. Default: the latest."""

    def attempt_of(self, run: Run) -> int:
        """Return the attempt; raise BadFieldError if the run does not have it."""
        if self.attempt is None:
            return run.attempt
        if not 0 < self.attempt <= run.attempt:
            attempts = f"attempts 1 to {run.attempt}" if run.attempt else "not started any attempt"
            raise BadFieldError("attempt", f"run {run.id} has {attempts} (got {self.attempt})")
        return self.attempt
