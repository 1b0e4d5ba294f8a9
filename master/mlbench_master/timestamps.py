"""Timestamps in the format of the API: UTC, ``2018-08-03T09:21:29.347000Z``."""

from datetime import UTC, datetime, timedelta
from typing import overload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Range of the API's timestamps: the years 1 to 9999, in UTC.
EARLIEST_US = -62_135_596_800_000_000
LATEST_US = 253_402_300_799_999_999


def to_text(time_us: int) -> str:
    """Format microseconds since 1970, which must be in the years 1 to 9999."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@overload
def seconds_to_text(seconds: float) -> str: ...
@overload
def seconds_to_text(seconds: None) -> None: ...
def seconds_to_text(seconds: float | None) -> str | None:
    """Format Unix seconds; None for None.

    A time outside of the years 1 to 9999 becomes the first or the last moment of them.
    """
    if seconds is None:
        return None
    # Rounding to float moves the latest moment past the end. NaN becomes the earliest moment,
    # because every comparison with it is false.
    within = min(max(float(EARLIEST_US), seconds * 1e6), float(LATEST_US))
    return to_text(min(round(within), LATEST_US))


def to_microseconds(moment: datetime) -> int:
    """Return microseconds since 1970. A time without a time zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def parse(text: str) -> int:
    """Parse an ISO 8601 time into microseconds since 1970; without a time zone, it is UTC.

    Raises:
        ValueError: the text is not an ISO 8601 time.
    """
    # In a query string, the plus sign of a time zone arrives as a space.
    head, space, zone = text.rpartition(" ")
    if space and len(zone) == len("00:00") and ":" in head:
        text = f"{head}+{zone}"
    try:
        return to_microseconds(datetime.fromisoformat(text))
    except ValueError:
        raise ValueError("must be a time such as 2018-08-03T09:21:29.347Z") from None
