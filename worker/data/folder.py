"""Where data sets lie on this machine, and the error for one that does not."""

import os
from collections.abc import Mapping
from pathlib import Path

from mlbench import MLBenchError, names
from mlbench.home import Home


class DataError(MLBenchError):
    """A data set is missing or broken: says what, where it was looked for, and how to get it."""


def datasets_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all data sets: $MLBENCH_DATASETS, or ``datasets`` in $MLBENCH_HOME.

    The folder need not exist.
    """
    given = environ.get(names.ENV_DATASETS)
    return Path(given).absolute() if given else Home.from_environ(environ).datasets
