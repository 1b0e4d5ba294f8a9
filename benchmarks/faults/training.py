"""A rank that records known values, and notes in a file how many.

It is run as ``python training.py NOTES``. Value ``i`` of attempt ``a`` is ``a * 1,000,000 + i``, so
no value comes twice in a run.
"""

import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

METRIC = "value"
_ATTEMPT = 1_000_000
_VALUES = 1500
_RATE = 100.0  # values a second


def main(folder: Path) -> None:
    """Record the values at the rate, one per line."""
    run, attempt, rank = (os.environ[f"MLBENCH_{name}"] for name in ("RUN_ID", "ATTEMPT", "RANK"))
    started = time.monotonic()
    with (
        Path(os.environ["MLBENCH_METRICS_FILE"]).open("ab", buffering=0) as metrics,
        (folder / f"{run}-{attempt}-{rank}").open("ab", buffering=0) as noted,
    ):
        for i in range(_VALUES):
            time.sleep(max(0.0, started + i / _RATE - time.monotonic()))
            values = {METRIC: int(attempt) * _ATTEMPT + i}
            line = json.dumps({"time": time.time(), "metrics": values})
            metrics.write(f"{line}\n".encode())
            # Afterwards: a rank killed in between recorded one more than it noted.
            noted.write(b".")


def check_values(notes: Path, run_id: int, rank: int, values: Iterable[int]) -> Counter[str]:
    """Compare a rank's series with its notes: count the values noted, lost, and found twice."""
    stored_of = defaultdict[int, list[int]](list)
    for value in values:
        attempt, i = divmod(value, _ATTEMPT)
        stored_of[attempt].append(i)
    counts = Counter(noted=0, lost=0, doubled=0)
    for path in notes.glob(f"{run_id}-*-{rank}"):
        noted = path.stat().st_size
        stored = stored_of.pop(int(path.name.split("-")[1]), [])
        distinct = set(stored)
        recorded = max(noted, min(len(distinct), noted + 1))
        missing = set(range(recorded)) - distinct
        counts.update(noted=recorded, lost=len(missing), doubled=len(stored) - len(distinct))
    counts["doubled"] += sum(map(len, stored_of.values()))
    return counts


if __name__ == "__main__":
    main(Path(sys.argv[1]))
