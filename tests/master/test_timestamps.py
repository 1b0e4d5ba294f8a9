"""Timestamps as the API writes and parses them."""

from datetime import UTC, datetime

import pytest

from mlbench_master.timestamps import parse, seconds_to_text, to_microseconds, to_text

AT_US = 1_533_288_089_347_960


def test_timestamps_are_written_in_utc_with_microseconds() -> None:
    assert to_text(AT_US) == "2018-08-03T09:21:29.347960Z"
    assert to_text(0) == "1970-01-01T00:00:00.000000Z"
    assert to_text(-1) == "1969-12-31T23:59:59.999999Z"
    assert seconds_to_text(1_533_288_089.34796) == "2018-08-03T09:21:29.347960Z"
    assert seconds_to_text(None) is None


@pytest.mark.parametrize("year", [1, 99, 1969, 9999])
def test_years_have_four_digits(year: int) -> None:
    time_us = to_microseconds(datetime(year, 1, 2, tzinfo=UTC))
    assert to_text(time_us) == f"{year:04}-01-02T00:00:00.000000Z"
    assert parse(to_text(time_us)) == time_us


@pytest.mark.parametrize(
    "text",
    [
        "2018-08-03T09:21:29.347960Z",
        "2018-08-03 09:21:29.347960",
        "2018-08-03T09:21:29.347960",
        "2018-08-03T09:21:29.347960+00:00",
        "2018-08-03T11:21:29.347960+02:00",
        "2018-08-03T11:21:29.347960 02:00",  # an unescaped plus sign of a query string
        "2018-08-03 11:21:29.347960 02:00",
        "2018-08-03T05:51:29.347960-03:30",
        "20180803T092129.347960Z",
    ],
)
def test_common_notations_are_parsed(text: str) -> None:
    assert parse(text) == AT_US
    assert to_text(parse("2018-08-03 09:21")) == "2018-08-03T09:21:00.000000Z"


@pytest.mark.parametrize(
    "text",
    ["", "now", "3", "2018-13-03", "2018-08-03T25:00:00", "09:21:29", "\x00", "2018-08-03Z 1"],
)
def test_malformed_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)
