"""Fixtures of the core's tests that these tests use as well."""

from tests.mlbench.cli.conftest import here, mlbench
from tests.mlbench.conftest import finished
from tests.worker.agent.conftest import _no_other_children, attempt, begin

__all__ = ["_no_other_children", "attempt", "begin", "finished", "here", "mlbench"]
