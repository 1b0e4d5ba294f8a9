"""Errors that this package raises on purpose. Their messages are for the user."""


class MLBenchError(Exception):
    """Base class of all errors of this package."""


class NotConnectedError(MLBenchError):
    """No master is configured, and no local stack is running."""


class DiscoveryError(MLBenchError):
    """The cluster has no master."""


class NoResponseError(MLBenchError):
    """The master is not reachable, or stopped responding."""


class ApiError(MLBenchError):
    """The master refused a request, with an HTTP ``status`` and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class JobError(MLBenchError):
    """The launcher's variables or the options of a recorded command are incomplete or invalid."""


class StackError(MLBenchError):
    """The local stack cannot be started or stopped. The message contains a remedy."""
