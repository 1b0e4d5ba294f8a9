"""What these tests share with those of the master."""

from tests.master.conftest import prometheus, recording, run, writer

__all__ = ["prometheus", "recording", "run", "writer"]
