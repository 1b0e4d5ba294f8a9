"""Times as the API writes and reads them: UTC, ``2018-08-03T09:21:29.347000Z``."""

from datetime import UTC, datetime, timedelta
from typing import overload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


# What the API can write: the years 1 to 9999, in UTC.
EARLIEST_US = -62_135_596_800_000_000
LATEST_US = 253_402_300_799_999_999


def to_text(time_us: int) -> str:
    """Return microseconds since 1970, of the years 1 to 9999, as the API writes them."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@overload
def seconds_to_text(seconds: float) -> str: ...
@overload
def seconds_to_text(seconds: None) -> None: ...
def seconds_to_text(seconds: float | None) -> str | None:
    """Return Unix seconds as the API writes them; nothing for nothing.

    What is outside of the years 1 to 9999 becomes the first or the last moment of them.
    """
    if seconds is None:
        return None
    # The float of the latest moment is a later one. NaN compares as false, so it is the earliest.
    within = min(max(float(EARLIEST_US), seconds * 1e6), float(LATEST_US))
    return to_text(min(round(within), LATEST_US))


def to_microseconds(moment: datetime) -> int:
    """Return microseconds since 1970. A time without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def parse(text: str) -> int:
    """Return microseconds since 1970 of an ISO 8601 time, with ``T`` or a space, ``Z`` or none.

    Raises:
        ValueError: the text is no such time.
    """
    # In a query string, the plus sign of a zone arrives as a space.
    head, space, zone = text.rpartition(" ")
    if space and len(zone) == len("00:00") and ":" in head:
        text = f"{head}+{zone}"
    return to_microseconds(datetime.fromisoformat(text))
