"""The errors that this package raises on purpose. Their text is for the user."""


class MLBenchError(Exception):
    """Base of them all."""


class NotConnectedError(MLBenchError):
    """No master is named, and no local stack is running."""


class DiscoveryError(MLBenchError):
    """The master was not found in the cluster."""


class NoAnswerError(MLBenchError):
    """The master cannot be reached, or stopped answering."""


class ApiError(MLBenchError):
    """The master refused a request. ``status`` is the HTTP status, the text its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class JobError(MLBenchError):
    """A launcher's variables or the options of a recorded command say too little, or nonsense."""


class StackError(MLBenchError):
    """The local stack cannot be started or stopped; the text says what to do."""
