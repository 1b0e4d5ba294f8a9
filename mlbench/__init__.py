"""MLBench: benchmark distributed machine learning, and trust the number.

``Tracker`` records what a training script does; ``ApiClient`` talks to the master; ``open`` gives
the values of runs and archives as tables; ``record`` records this process as a run.
"""

from typing import TYPE_CHECKING

from mlbench.errors import MLBenchError
from mlbench.tracker import Tracker

if TYPE_CHECKING:
    from mlbench.client import ApiClient
    from mlbench.companion import record
    from mlbench.opened import open_runs as open  # noqa: A004 - as it is read: mlbench.open
else:

    def __getattr__(name: str) -> object:
        """Import the client only when it is used: a training process needs no HTTP."""
        if name == "ApiClient":
            from mlbench.client import ApiClient  # noqa: PLC0415

            return ApiClient
        if name == "open":
            from mlbench.opened import open_runs  # noqa: PLC0415

            return open_runs
        if name == "record":
            from mlbench.companion import record  # noqa: PLC0415

            return record
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["ApiClient", "MLBenchError", "Tracker", "open", "record"]


def __dir__() -> list[str]:
    return __all__
