"""Joining tokens: list, revocation and quotas."""

import time

import pytest
from falcon.testing import TestClient
from peewee import Database

from mlbench.contract.conversion import convert
from mlbench.contract.join_token import make
from mlbench_master.database.models import JoinToken, Run
from mlbench_master.errors import TooManyError
from mlbench_master.runs import join_tokens
from mlbench_master.runs.join_tokens import TokenRequest
from mlbench_master.runs.joining import JoinRequest, join
from mlbench_master.settings import InstallationLimits
from tests.conftest import AGENT_SECRET, USER_TOKEN
from tests.master.runs.test_joining import JOB

pytestmark = pytest.mark.both_databases

LIMITS = InstallationLimits(join_runs=3, join_ranks=10, join_rate=5)


def order(key: str, holder: str = "ab12", num_workers: int = 1) -> Run:
    fields = JOB | {"key": key, "num_workers": num_workers}
    joined = join(convert(JoinRequest, fields), holder, LIMITS, AGENT_SECRET, time.time() + 60)
    found: Run = Run.get_by_id(joined.run_id)
    return found


def end_all() -> None:
    Run.update(state="FINISHED").execute()


def test_the_active_runs_of_a_token_are_limited(database: Database) -> None:
    first, *_ = [order(f"{number}") for number in range(3)]
    with pytest.raises(TooManyError, match="the 3 active runs are its maximum"):
        order("3")
    assert order("0").id == first.id  # joining again does not count
    order("3", holder="ab13")
    order("3", holder="")
    end_all()
    order("3")


def test_the_active_ranks_of_a_token_are_limited(database: Database) -> None:
    order("0", num_workers=8)
    with pytest.raises(TooManyError, match=r"num_workers: must be at most 2 \(got 3\)"):
        order("1", num_workers=3)
    order("1", num_workers=2)


def test_the_new_runs_per_minute_of_a_token_are_limited(database: Database) -> None:
    for number in range(5):
        order(f"{number}")
        end_all()
    with pytest.raises(TooManyError, match="at most 5 new runs per minute"):
        order("5")
    # The quota regains one run in 12 s.
    JoinToken.update(recent_at=JoinToken.recent_at - 13).execute()
    order("5")
    assert JoinToken.get_by_id("ab12").runs == 6


def test_tokens_are_listed_and_revoked_individually(database: Database, api: TestClient) -> None:
    ada, bob = (join_tokens.create(TokenRequest(name=name), USER_TOKEN) for name in ("ada", "bob"))
    assert api.simulate_post("/api/join/", json=JOB, headers=_bearer(ada.token)).status_code == 200
    answer = api.simulate_delete(f"/api/tokens/{ada.id}/")
    assert (answer.status_code, bool(answer.json["revoked_at"])) == (200, True)
    refused = api.simulate_post("/api/join/", json=JOB | {"rank": 1}, headers=_bearer(ada.token))
    assert (refused.status_code, "was revoked" in refused.json["message"]) == (401, True)
    assert api.simulate_post("/api/join/", json=JOB, headers=_bearer(bob.token)).status_code == 200
    listed = api.simulate_get("/api/tokens/").json
    rows = [(row["name"], row["runs"], row["token"]) for row in listed]
    assert rows == [("ada", 1, None), ("bob", 1, None)]
    assert api.simulate_delete("/api/tokens/nobody/").status_code == 404


def test_a_token_is_listed_after_its_first_use(database: Database, api: TestClient) -> None:
    token = make(USER_TOKEN, int(time.time()) + 60, "ab12")
    assert api.simulate_get("/api/tokens/").json == []
    assert api.simulate_post("/api/join/", json=JOB, headers=_bearer(token)).status_code == 200
    [row] = api.simulate_get("/api/tokens/").json
    assert (row["id"], row["created_at"], bool(row["last_used_at"])) == ("ab12", None, True)


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
