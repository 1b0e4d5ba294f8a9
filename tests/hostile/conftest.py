"""What these tests share with those of the master, and of the web pages."""

from tests.master.conftest import delivery, prometheus, run, writer
from tests.web.conftest import chromium

__all__ = ["chromium", "delivery", "prometheus", "run", "writer"]
