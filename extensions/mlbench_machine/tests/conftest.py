"""Core fixtures for the tests of this extension."""

from tests.mlbench.cli.conftest import alone, mlbench

__all__ = ["alone", "mlbench"]
