"""What these tests share with those of the master: a run, and a delivery to the real Prometheus."""

from tests.master.conftest import delivery, prometheus, run, writer

__all__ = ["delivery", "prometheus", "run", "writer"]
