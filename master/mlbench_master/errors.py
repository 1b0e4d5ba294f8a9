"""Errors of the master's rules; ``http/error_responses.py`` turns them into HTTP responses."""

from mlbench.contract.errors import MLBenchError


class RefusedError(MLBenchError):
    """The master refuses a request; the message says why."""


class BadFieldError(RefusedError):
    """A field of the request is invalid."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")


class NotFoundError(RefusedError):
    """The requested object does not exist."""


class ConflictError(RefusedError):
    """The state of the object does not allow the request."""


class TooManyError(RefusedError):
    """A quota is used up at present."""


class TooLargeError(RefusedError):
    """The request is larger than its limit."""


class ServiceUnavailableError(MLBenchError):
    """The master cannot process the request at present."""

    may_pass = True
    """Whether a retry may help."""
