"""Clients of the web pages: a browser without a session, and one with a session."""

import time
from pathlib import Path

import pytest
from falcon.testing import TestClient
from falcon.testing.helpers import DEFAULT_HOST

from mlbench_master.http.access import cookie_name, make_session
from tests.conftest import USER_TOKEN

COOKIE = cookie_name(80)
ORIGIN = f"http://{DEFAULT_HOST}"
_ACCEPT = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """An SQLite database for all tests: pages do not query the database."""
    return f"sqlite:///{tmp_path / 'mlbench.db'}"


@pytest.fixture
def browser(api: TestClient) -> TestClient:
    """A browser without a session."""
    return TestClient(api.app, headers={"Accept": _ACCEPT})


@pytest.fixture
def signed_in(api: TestClient) -> TestClient:
    """A page script in a browser that has a session."""
    session = make_session(USER_TOKEN, time.time())
    headers = {"Cookie": f"{COOKIE}={session}", "Sec-Fetch-Mode": "cors"}
    return TestClient(api.app, headers=headers)
