"""``mlbench token``: a joining token opens one route and is listed and revoked separately."""

import time

import httpx
import pytest

from mlbench.contract.join_token import read
from mlbench.local.home import Home
from tests.mlbench.cli.conftest import Mlbench
from tests.support.known import known


def test_a_joining_token(mlbench: Mlbench, stack: Home) -> None:
    connection = stack.read_connection()
    shown = mlbench("token", "join", "--days", "2").out.removesuffix("\n")
    later = time.time() + 2 * 24 * 3600
    assert read(shown, connection.token, later - 60)
    assert not read(shown, connection.token, later + 60)
    with httpx.Client(base_url=connection.url, auth=("me", shown)) as http:
        assert http.get("/api/runs/").status_code == 403
        assert http.get("/api/tokens/").status_code == 403
        assert http.post("/api/join/", json={}).status_code == 400


def test_revoking_a_token_keeps_the_others(mlbench: Mlbench, stack: Home) -> None:
    connection = stack.read_connection()
    tokens = [mlbench("token", "join", "--name", name).out.strip() for name in ("ada", "bob")]
    ids = [known(read(token, connection.token, 0)).holder for token in tokens]
    listed = mlbench("token", "list").out
    assert all(token_id in listed for token_id in ids)
    assert mlbench("token", "revoke", ids[0]).code == 0
    for token, status in zip(tokens, (401, 400), strict=True):
        answer = httpx.post(f"{connection.url}/api/join/", json={}, auth=("me", token))
        assert answer.status_code == status
    rows = {row["id"]: row for row in mlbench("token", "list", "--json").json}
    assert [rows[token_id]["name"] for token_id in ids] == ["ada", "bob"]
    assert [bool(rows[token_id]["revoked_at"]) for token_id in ids] == [True, False]
    assert "not found" in mlbench("token", "revoke", "nobody").err


@pytest.mark.parametrize("wrong", [["user"], ["join", "--days=0"], ["join", "--days=3651"]])
def test_invalid_arguments_are_refused(mlbench: Mlbench, wrong: list[str]) -> None:
    assert mlbench("token", *wrong).code == 2
