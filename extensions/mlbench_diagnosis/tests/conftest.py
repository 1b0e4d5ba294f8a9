"""Core fixtures for the tests of this extension."""

from tests.mlbench.cli.conftest import here, mlbench
from tests.mlbench.conftest import finished
from tests.worker.agent.conftest import _no_other_children, attempt, begin

__all__ = ["_no_other_children", "attempt", "begin", "finished", "here", "mlbench"]
