"""The ranks that caused the end of a run's other ranks."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """Exit of a rank."""

    rank: int
    exit_code: int | None
    stderr_end: str
    out_of_memory_kills: int = 0

    @property
    def echoes(self) -> bool:
        """Whether the rank reports that another rank is gone."""
        messages = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
        return any(message in self.stderr_end for message in messages)

    @property
    def is_cause(self) -> bool:
        """Whether the rank failed on its own, not because another rank had failed."""
        # Ranks that are stopped because another one failed exit by SIGTERM or SIGKILL.
        was_stopped = self.exit_code in (-15, -9, 143, 137) and not self.out_of_memory_kills
        return bool(self.exit_code) and not was_stopped and not self.echoes


def ended_first(ended: Sequence[Ended]) -> list[int]:
    """Return the ranks that caused the end of the others, by exit codes and last messages.

    These are the ranks that failed by themselves, or without any those that ended with code 0
    while others lost their connection to them.
    """
    failed = [rank for rank in ended if rank.exit_code]
    causes = [rank.rank for rank in failed if rank.is_cause]
    by_itself = [rank.rank for rank in failed if not rank.echoes]
    succeeded = [rank.rank for rank in ended if not rank.exit_code and not rank.echoes]
    return causes or by_itself or succeeded
