"""MLBench: benchmark distributed machine learning, and trust the number.

``Tracker`` records what a training script does; ``ApiClient`` talks to the master; ``open`` gives
the values of runs and archives as tables; ``record`` records this process as a run.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mlbench.contract.errors import MLBenchError
from mlbench.tracking.tracker import Tracker

if TYPE_CHECKING:
    from mlbench.client import ApiClient
    from mlbench.client.run_data import open_runs as open  # noqa: A004 - as it is read: mlbench.open
    from mlbench.tracking.record_process import record
else:
    # Imported only when they are used: a training process needs no HTTP.
    _LATER = {
        "ApiClient": ("mlbench.client", "ApiClient"),
        "open": ("mlbench.client.run_data", "open_runs"),
        "record": ("mlbench.tracking.record_process", "record"),
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, attribute = _LATER[name]
        return getattr(import_module(module), attribute)


__all__ = ["ApiClient", "MLBenchError", "Tracker", "open", "record"]


def __dir__() -> list[str]:
    return __all__
