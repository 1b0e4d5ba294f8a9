"""Many dates at once are written as single ones are."""

import random

from mlbench_master import timestamps
from mlbench_master.reading.formats import FormattedTimes
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US


def test_any_date_is_written_as_one_is() -> None:
    dice = random.Random(2)  # noqa: S311 - dice, not secrets
    times_us = [0, 1, 999, 1000, -1, -1_000_000, 1_533_288_089_347_960]
    times_us += [BEFORE_ALL_US + 1, AFTER_ALL_US - 1]
    times_us += [dice.randrange(BEFORE_ALL_US + 1, AFTER_ALL_US) for _ in range(30_000)]
    dates = FormattedTimes()
    assert [dates[time_us] for time_us in times_us] == list(map(timestamps.to_text, times_us))
    assert dates[1_533_288_089_347_960] == "2018-08-03T09:21:29.347960Z"
