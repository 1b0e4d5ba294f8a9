"""The distribution on PyPI that holds all of this: its name, its version, how to install it."""

from typing import Final

DISTRIBUTION: Final = "mlbench-stack"
"""The import and the command are called `mlbench`."""


def own_version() -> str:
    """Return the version that is installed; PackageNotFoundError for code that is not."""
    from importlib.metadata import version  # noqa: PLC0415 - most commands never ask

    return version(DISTRIBUTION)


def how_to_install(*extras: str) -> str:
    """Return the command that installs these extras."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"
