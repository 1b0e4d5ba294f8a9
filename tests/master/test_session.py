"""Sessions: good for 30 days, for one token, and for nobody who makes one up."""

import pytest

from master.session import SESSION_SECONDS, cookie_name, is_session, make_session

NOW = 1_800_000_000.5
DAY = 24 * 3600


def test_a_session_is_good_for_thirty_days() -> None:
    session = make_session("token", NOW)
    assert SESSION_SECONDS == 30 * DAY
    assert is_session(session, "token", NOW)
    assert is_session(session, "token", NOW + 30 * DAY - 1)
    assert not is_session(session, "token", NOW + 30 * DAY)


def test_another_token_ends_it() -> None:
    assert not is_session(make_session("token", NOW), "another", NOW)


def test_it_does_not_show_the_token() -> None:
    assert "token" not in make_session("token", NOW)


def test_a_longer_time_needs_another_signature() -> None:
    expiry, _, signature = make_session("token", NOW).partition(".")
    assert not is_session(f"{int(expiry) + 1}.{signature}", "token", NOW)
    assert not is_session(f"{expiry}.{signature[:-1]}", "token", NOW)
    assert not is_session(f"{expiry}.{signature}0", "token", NOW)


@pytest.mark.parametrize(
    "odd", ["", ".", "x", "9999999999", "9999999999.", "-1.x", "٣.x", "1e9.x", "9" * 5_000, "é.é"]
)
def test_what_is_none(odd: str) -> None:
    assert not is_session(odd, "token", NOW)


def test_each_port_has_a_cookie_of_its_own() -> None:
    assert cookie_name(8000) == "mlbench-session-8000" != cookie_name(8001)
