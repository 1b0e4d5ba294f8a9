"""What these tests share with those of the master."""

from tests.master.conftest import delivery, prometheus, run, writer

__all__ = ["delivery", "prometheus", "run", "writer"]
