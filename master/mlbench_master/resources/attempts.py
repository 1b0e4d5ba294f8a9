"""The parameter that chooses an attempt of a run."""

from falcon import Request

from mlbench_master.database.models import Run
from mlbench_master.errors import BadFieldError
from mlbench_master.openapi.operation import whole

ATTEMPT = whole("attempt", "Attempt of the run. Default: the latest.")


def read_attempt(req: Request, run: Run) -> int:
    """Return the attempt that a request names; a BadFieldError if the run does not have it."""
    attempt = ATTEMPT.read(req)
    if attempt is None:
        return run.attempt
    if not 0 < attempt <= run.attempt:
        attempts = f"attempts 1 to {run.attempt}" if run.attempt else "not started any attempt"
        raise BadFieldError("attempt", f"run {run.id} has {attempts} (got {attempt})")
    return attempt
