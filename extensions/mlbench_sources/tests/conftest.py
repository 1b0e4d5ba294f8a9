"""Fixtures of the core's tests that these tests use as well."""

from tests.mlbench.cli.conftest import here, mlbench

__all__ = ["here", "mlbench"]
