"""Joining tokens: holder, role, expiry, and invalid tokens."""

from typing import get_args

import pytest

from mlbench.contract.join_token import NamedToken, make, new_holder, read, why_refused
from mlbench.contract.people import Role

NOW = 1_800_000_000
TOKEN = make("user-token", NOW, "ab12")


def holder_of(shown: str, user_token: str, now: float) -> str | None:
    token = read(shown, user_token, now)
    return token.holder if token else None


@pytest.mark.parametrize("role", get_args(Role))
def test_a_token_contains_its_role(role: Role) -> None:
    token = read(make("user-token", NOW, "ab12", role), "user-token", NOW - 1)
    assert token == NamedToken(role, "ab12", NOW)


def test_a_token_identifies_its_holder_until_it_expires_or_the_user_token_changes() -> None:
    assert holder_of(TOKEN, "user-token", NOW - 0.5) == "ab12"
    assert holder_of(TOKEN, "user-token", NOW) is None
    assert holder_of(TOKEN, "another", NOW - 1) is None
    assert "user-token" not in TOKEN


def test_holders_are_unique() -> None:
    one, other = new_holder(), new_holder()
    assert one != other
    assert holder_of(make("t", NOW, one), "t", 0) == one


@pytest.mark.parametrize(
    "shown",
    [
        *("", ".", "join", "join.", "join...", "join.ab12.٣.x", "join.ab12.-1.x", "é.é.1.é"),
        *(TOKEN[:-1], f"{TOKEN}0", TOKEN.replace("ab12", "ab13"), TOKEN.replace("join", "jojn")),
        *(TOKEN.replace(str(NOW), str(NOW + 1)), f"join.ab12.{'9' * 5_000}.x"),
        TOKEN.replace("join", "admin"),
    ],
)
def test_a_changed_token_is_refused(shown: str) -> None:
    assert holder_of(shown, "user-token", 0) is None


@pytest.mark.parametrize(
    ("shown", "now", "why"),
    [
        (TOKEN, NOW, "the token expired on 2027-01-15"),
        (TOKEN, NOW - 1, "the token was revoked, or is another master's"),
        ("secret", NOW, "the token is not this master's"),
        ("join.ab12.soon.x", NOW, "the token is not this master's"),
    ],
)
def test_the_reason_for_a_refusal(shown: str, now: float, why: str) -> None:
    assert why_refused(shown, now) == why
