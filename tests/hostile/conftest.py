"""Fixtures shared with the tests of the master."""

from tests.master.conftest import prometheus, recording, run, writer

__all__ = ["prometheus", "recording", "run", "writer"]
