"""What the rules of the master refuse, and how that is said; ``http_errors.py`` answers with it."""

from mlbench.contract.errors import MLBenchError


class RefusedError(MLBenchError):
    """A request asks for what cannot be; the text says why."""


class BadFieldError(RefusedError):
    """A field of the request is wrong."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")


class NotFoundError(RefusedError):
    """There is no such thing."""


class ConflictError(RefusedError):
    """It cannot be done to the thing as it is."""


class TooManyError(RefusedError):
    """A quota is used up for the moment."""


class TooLargeError(RefusedError):
    """It is larger than what is taken."""


class ServiceUnavailableError(MLBenchError):
    """Something cannot be done for the moment."""

    may_pass = True
    """Whether asking again may help."""
