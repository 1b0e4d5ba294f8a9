"""The parameter that chooses an attempt of a run."""

from falcon import Request

from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.openapi.operation import whole

ATTEMPT = whole("attempt", "Of which attempt; by default the latest.")


def read_attempt(req: Request, run: Run) -> int:
    """Return the attempt that a request asks for; a BadFieldError if the run has none such."""
    wanted = ATTEMPT.read(req)
    if wanted is None:
        return run.attempt
    if not 0 < wanted <= run.attempt:
        attempts = f"attempts 1 to {run.attempt}" if run.attempt else "not started any attempt"
        raise BadFieldError("attempt", f"run {run.id} has {attempts} (got {wanted})")
    return wanted
