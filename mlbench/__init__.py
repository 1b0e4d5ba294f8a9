"""MLBench: benchmark distributed machine learning, and trust the number.

What a user holds in hand: the tracker for a training script, and the client of the master's API.
"""

from typing import TYPE_CHECKING

from mlbench.errors import MLBenchError
from mlbench.tracker import Tracker

if TYPE_CHECKING:
    from mlbench.client import ApiClient

__all__ = ["ApiClient", "MLBenchError", "Tracker"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    """Import the client when it is first asked for: a training process does without HTTP."""
    if name == "ApiClient":
        from mlbench.client import ApiClient  # noqa: PLC0415

        return ApiClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
