"""Many dates at once are written as single ones are."""

import json
import random

import numpy as np

from mlbench_master import timestamps
from mlbench_master.reading.formats import Owner, write_one
from mlbench_master.reading.points import Points
from mlbench_master.reading.selection import AFTER_ALL_US, BEFORE_ALL_US


def test_any_date_is_written_as_one_is() -> None:
    dice = random.Random(2)  # noqa: S311 - dice, not secrets
    times_us = [0, 1, 999, 1000, -1, -1_000_000, 1_533_288_089_347_960]
    times_us += [BEFORE_ALL_US + 1, AFTER_ALL_US - 1]
    times_us += [dice.randrange(BEFORE_ALL_US + 1, AFTER_ALL_US) for _ in range(1_000)]
    points = Points(np.array(times_us), ["1"] * len(times_us))
    answer = write_one(Owner("run", "1", iter([("a", iter([points]))])), "json", "")
    written = json.loads(b"".join(answer.chunks))["a"]
    assert [point["date"] for point in written] == list(map(timestamps.to_text, times_us))
