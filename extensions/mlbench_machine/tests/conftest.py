"""Fixtures of the core's tests that these tests use as well."""

from tests.mlbench.cli.conftest import alone, mlbench

__all__ = ["alone", "mlbench"]
