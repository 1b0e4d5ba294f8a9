"""The distribution that holds all of this: its name, its version, how to install it."""

from typing import Final

DISTRIBUTION: Final = "mlbench-stack"
"""The import and the command are called `mlbench`."""


def own_version() -> str:
    """Return the version that is installed; PackageNotFoundError for code that is not."""
    from importlib.metadata import version  # noqa: PLC0415 - most commands never ask

    return version(DISTRIBUTION)


def how_to_install(*extras: str) -> str:
    """Return how to install these extras; docs/install.md has other ways."""
    # It is not on PyPI, where `mlbench` is another project.
    return f"`pip install '.[{','.join(extras)}]'` in a clone of MLBench"
