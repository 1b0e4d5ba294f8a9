"""The errors that a user of the package meets."""


class MLBenchError(Exception):
    """Base of every error that this package raises on purpose; its text is for the user."""
