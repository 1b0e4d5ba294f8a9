"""Writing many times at once, as ``2018-08-03T09:21:29.347000Z``."""

from collections.abc import Iterable

from master import times

_THREE_DIGITS = [f"{number:03d}" for number in range(1000)]
_MOST_SECONDS = 10_000


class Dates:
    """Writes what ``times.to_text`` does, and remembers how seconds are written."""

    def __init__(self) -> None:
        self._seconds = _Seconds()

    def write(self, times_us: Iterable[int]) -> list[str]:
        """Return microseconds since 1970, of the years 1 to 9999, as the API writes them."""
        seconds, digits = self._seconds, _THREE_DIGITS
        return [
            f"{seconds[time_us // 1_000_000]}{digits[time_us // 1000 % 1000]}"
            f"{digits[time_us % 1000]}Z"
            for time_us in times_us
        ]


class _Seconds(dict[int, str]):
    """The part of a date up to the point, by seconds since 1970."""

    def __missing__(self, second: int) -> str:
        if len(self) >= _MOST_SECONDS:
            self.clear()
        text = self[second] = times.to_text(second * 1_000_000)[: -len("000000Z")]
        return text
