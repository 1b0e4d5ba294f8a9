"""Core fixtures for the tests of this extension."""

from tests.conftest import chromium, database, database_url, own_prometheus, settings
from tests.master.archives.conftest import master, place
from tests.mlbench.cli.conftest import here, mlbench
from tests.mlbench.conftest import finished
from tests.web.conftest import context, page, watch

__all__ = [
    "chromium",
    "context",
    "database",
    "database_url",
    "finished",
    "here",
    "master",
    "mlbench",
    "own_prometheus",
    "page",
    "place",
    "settings",
    "watch",
]
