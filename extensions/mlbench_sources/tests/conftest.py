"""Core fixtures for the tests of this extension."""

from tests.mlbench.cli.conftest import here, mlbench

__all__ = ["here", "mlbench"]
