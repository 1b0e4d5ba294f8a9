"""What a user of the local stack is told when it does not work."""

from mlbench.errors import MLBenchError


class StackError(MLBenchError):
    """The local stack cannot be started; the text says what to do."""
