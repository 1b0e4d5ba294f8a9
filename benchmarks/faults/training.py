"""A training that notes what it recorded: known values, and in a file of its own how many.

Run as a rank: ``python -m benchmarks.faults.training --values 1000 --rate 150 --notes FOLDER``.
Value ``i`` of attempt ``a`` is ``a * 1,000,000 + i``, so no value comes twice in a run.
"""

import argparse
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

METRIC = "value"
_ATTEMPT = 1_000_000


def main() -> None:
    """Record the values at the rate, each in a line of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="values a second")
    parser.add_argument("--notes", type=Path, required=True)
    options = parser.parse_args()
    run, attempt, rank = (os.environ[f"MLBENCH_{name}"] for name in ("RUN_ID", "ATTEMPT", "RANK"))
    notes = options.notes / f"{run}-{attempt}-{rank}"
    started = time.monotonic()
    with (
        Path(os.environ["MLBENCH_METRICS_FILE"]).open("ab", buffering=0) as metrics,
        notes.open("ab", buffering=0) as noted,
    ):
        for i in range(options.values):
            time.sleep(max(0.0, started + i / options.rate - time.monotonic()))
            values = {METRIC: int(attempt) * _ATTEMPT + i}
            line = json.dumps({"time": time.time(), "metrics": values})
            metrics.write(f"{line}\n".encode())
            # Afterwards: a rank killed in between recorded one more than it noted.
            noted.write(b".")


@dataclass(frozen=True)
class Check:
    """How many values were recorded, how many of these are lost, and how many came twice."""

    recorded: int = 0
    lost: int = 0
    doubled: int = 0

    def __add__(self, other: "Check") -> "Check":
        """Return the sums."""
        return Check(
            self.recorded + other.recorded, self.lost + other.lost, self.doubled + other.doubled
        )


def check_values(notes: Path, run_id: int, rank: int, values: Iterable[float]) -> Check:
    """Compare the values that a rank's series has with what the rank noted."""
    found: dict[int, list[int]] = {}
    for value in values:
        attempt, i = divmod(round(value), _ATTEMPT)
        found.setdefault(attempt, []).append(i)
    total = Check()
    for path in notes.glob(f"{run_id}-*-{rank}"):
        noted = path.stat().st_size
        stored = found.pop(int(path.name.split("-")[1]), [])
        distinct = set(stored)
        recorded = max(noted, min(len(distinct), noted + 1))
        missing = set(range(recorded)) - distinct
        total += Check(recorded, len(missing), len(stored) - len(distinct))
    return total + Check(doubled=sum(map(len, found.values())))


if __name__ == "__main__":
    main()
