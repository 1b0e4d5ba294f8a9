"""Callbacks that record the runs of training libraries; the libraries are optional."""

import os

from mlbench.contract import names


def lightning_callbacks() -> list[object]:
    """Return the callback that Lightning adds to a Trainer, or none outside a run.

    Lightning calls this for every Trainer: pyproject.toml names it as an entry point.
    """
    if not os.environ.get(names.ENV_METRICS_FILE):
        return []
    try:
        from mlbench_callbacks.lightning import MLBenchCallback  # noqa: PLC0415

        return [MLBenchCallback()]
    except Exception as error:
        from mlbench_callbacks.hooks import complain  # noqa: PLC0415

        complain("lightning", "its callback", error)
        return []
