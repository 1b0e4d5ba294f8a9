"""Fixtures of the core's tests that these tests use as well."""

from tests.worker.agent.conftest import _no_other_children, attempt, begin

__all__ = ["_no_other_children", "attempt", "begin"]
