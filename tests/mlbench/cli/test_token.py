"""``mlbench token join``: what it prints opens the route for joining, and no other."""

import time

import httpx
import pytest

from mlbench.home import Home
from mlbench.join_token import holder_of
from tests.mlbench.cli.conftest import Mlbench


def test_a_joining_token(mlbench: Mlbench, stack: Home) -> None:
    connection = stack.read_connection()
    shown = mlbench("token", "join", "--days", "2").out.removesuffix("\n")
    later = time.time() + 2 * 24 * 3600
    assert holder_of(shown, connection.token, later - 60)
    assert not holder_of(shown, connection.token, later + 60)
    with httpx.Client(base_url=connection.url, auth=("me", shown)) as http:
        assert http.get("/api/runs/").status_code == 403
        assert http.post("/api/join/", json={}).status_code == 400


@pytest.mark.parametrize("wrong", [["user"], [], ["join", "--days=0"], ["join", "--days=3651"]])
def test_what_is_no_such_token(mlbench: Mlbench, wrong: list[str]) -> None:
    assert mlbench("token", *wrong).code == 2
