"""Writing many times at once, as ``2018-08-03T09:21:29.347000Z``."""

from collections.abc import Iterable

from master import times

_THREE_DIGITS = [f"{number:03d}" for number in range(1000)]
_MOST = 10_000


class Dates:
    """Writes what ``times.to_text`` does, and remembers it: a rank's series share their times."""

    def __init__(self) -> None:
        self._texts = _Texts()

    def write(self, times_us: Iterable[int]) -> list[str]:
        """Return microseconds since 1970, of the years 1 to 9999, as the API writes them."""
        texts = self._texts
        return [texts[time_us] for time_us in times_us]


class _Texts(dict[int, str]):
    """Dates, by microseconds since 1970."""

    def __init__(self) -> None:
        super().__init__()
        self._seconds = _Seconds()

    def __missing__(self, time_us: int) -> str:
        if len(self) >= _MOST:
            self.clear()
        second, digits = self._seconds[time_us // 1_000_000], _THREE_DIGITS
        text = f"{second}{digits[time_us // 1000 % 1000]}{digits[time_us % 1000]}Z"
        self[time_us] = text
        return text


class _Seconds(dict[int, str]):
    """The part of a date up to the point, by seconds since 1970."""

    def __missing__(self, second: int) -> str:
        if len(self) >= _MOST:
            self.clear()
        text = self[second] = times.to_text(second * 1_000_000)[: -len("000000Z")]
        return text
