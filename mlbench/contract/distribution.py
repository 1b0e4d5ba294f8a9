"""The distribution of this package: its name, its version, and how to install it."""

from typing import Final

DISTRIBUTION: Final = "mlbench-stack"
"""Name of the distribution. The package and the command are called ``mlbench``."""


def own_version() -> str:
    """Return the installed version. Raises PackageNotFoundError for code that is not installed."""
    from importlib.metadata import version  # noqa: PLC0415 - most commands never need it

    return version(DISTRIBUTION)


def how_to_install(*extras: str) -> str:
    """Return instructions to install these extras; docs/install.md has other ways."""
    # MLBench is not on PyPI, where `mlbench` is another project.
    return f"`pip install '.[{','.join(extras)}]'` in a clone of MLBench"
